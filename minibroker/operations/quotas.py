"""Limits of users, client ids and addresses."""

from collections.abc import Mapping

from minibroker.operations.errors import OperationError, is_the_callers
from minibroker.quotas.entities import QuotaError, check_value, keys_of
from minibroker.state import BrokerState

__tracebackhide__ = is_the_callers


def set_quota(state: BrokerState, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
    """Set limits of an entity, and remove those that are None. OperationError, OSError."""
    try:
        keys = keys_of(entity.items())
        for key, limit in limits.items():
            if limit is not None:
                check_value(keys, key, limit)
    except QuotaError as error:
        raise OperationError(f"set_quota: {error}") from None
    state.quota_table.alter({frozenset(entity.items()): limits})
