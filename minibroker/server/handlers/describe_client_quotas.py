"""DescribeClientQuotas: the limits of users, client ids and addresses that a filter finds (KIP-546).

Versions 0-1. A type of entity that Kafka does not know is UNSUPPORTED_VERSION; one that is named twice, a way of
matching that is unknown or does not fit, and addresses together with users or client ids are INVALID_REQUEST.
"""

from collections.abc import Sequence
from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.quotas.entities import ENTITY_TYPES, IP, Entity, Values
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


class _FilterError(ValueError):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


NEEDS: Final = on_cluster(Operation.DESCRIBE_CONFIGS)
REFUSAL: Final = Refusal({"entries": None})


def handle(request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
    """Return the quotas that match the filter."""
    try:
        _check(request.components)
    except _FilterError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    entries = [
        _entry(entity, values)
        for entity, values in call.services.quota_table.items()
        if _matches(entity, request.components, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=entries)


def _check(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _FilterError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise _FilterError(ErrorCode.INVALID_REQUEST, message)
        if kind not in ENTITY_TYPES:
            raise _FilterError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(component)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        message = "Invalid entity filter component combination. IP filter component should not be used with "
        raise _FilterError(ErrorCode.INVALID_REQUEST, message + "user or clientId filter component.")


def _check_match(component: ComponentData) -> None:
    how, match = component.match_type, component.match
    if how == _EXACT and match is None:
        message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif how == _DEFAULT and match is not None:
        message = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
    elif how == _SPECIFIED and match is not None:
        message = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
    elif how not in {_EXACT, _DEFAULT, _SPECIFIED}:
        message = f"Unknown match type {how}"
    else:
        return
    raise _FilterError(ErrorCode.INVALID_REQUEST, message)


def _matches(entity: Entity, components: Sequence[ComponentData], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    return all(
        each.entity_type in names and (each.match_type == _SPECIFIED or names[each.entity_type] == each.match)
        for each in components
    )


def _entry(entity: Entity, values: Values) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str, reverse=True)],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )
