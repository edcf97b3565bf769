"""Limits of users, client ids and addresses."""

import asyncio
from collections.abc import Mapping
from typing import Final

from minibroker.errors import OperationError, is_the_callers
from minibroker.quotas.entities import IP, QuotaError, check_value, keys_of
from minibroker.services import Services

__tracebackhide__ = is_the_callers


_LONGEST_SEARCH_MS: Final = 20_000


async def set_quota(services: Services, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
    """Set limits of an entity, and remove those that are None. OperationError, OSError."""
    try:
        keys = keys_of(entity.items(), await _addresses(services, entity.get(IP)))
        for key, limit in limits.items():
            if limit is not None:
                check_value(keys, key, limit)
    except QuotaError as error:
        raise OperationError(f"set_quota: {error}") from None
    services.quota_table.alter({frozenset(entity.items()): limits})


async def _addresses(services: Services, host: str | None) -> Mapping[str, frozenset[str]]:
    """The addresses of a host, which is looked up aside; nothing if it is not found in time."""
    if not host:
        return {}
    found: asyncio.Future[Mapping[str, frozenset[str]]] = asyncio.get_running_loop().create_future()

    def tell(addresses: Mapping[str, frozenset[str]]) -> None:
        if not found.cancelled():
            found.set_result(addresses)

    services.host_names.look_up_all([host], _LONGEST_SEARCH_MS, tell)
    return await found
