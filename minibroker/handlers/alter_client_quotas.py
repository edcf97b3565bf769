"""AlterClientQuotas: limits of users, client ids and addresses are set and removed (KIP-546).

Versions 0-1. They count from the next request on, and outlive the run. Each entry has an outcome of its own: an entity
or a key that there is not, and a value that is not above 0, are INVALID_REQUEST.
"""

from collections.abc import Container, Mapping

from minibroker.call import Call
from minibroker.quotas.entities import Entity, QuotaError, check_value, keys_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    AlterEntityData,
    AlterEntryData,
)


def handle(request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
    """Check every entry by itself, then alter all that passed together."""
    changes: dict[Entity, Mapping[str, float | None]] = {}
    results: list[AlteredEntryData] = []
    for entry in request.entries:
        entity = [(each.entity_type, each.entity_name) for each in entry.entity]
        try:
            ops = _checked(entry, entity, changes)
        except QuotaError as error:
            results.append(_result(entry, ErrorCode.INVALID_REQUEST, str(error)))
        else:
            changes[frozenset(entity)] = ops
            results.append(_result(entry, ErrorCode.NONE))
    if not request.validate_only and changes:
        try:
            call.state.quota_table.alter(changes)
        except OSError as error:
            failure = f"{error.filename}: {error.strerror}"
            results = [_result(entry, ErrorCode.KAFKA_STORAGE_ERROR, failure) for entry in request.entries]
    return AlterClientQuotasResponse(entries=results)


def _checked(
    entry: AlterEntryData, entity: list[tuple[str, str | None]], others: Container[Entity]
) -> dict[str, float | None]:
    """What is to be set and removed. QuotaError."""
    keys = keys_of(entity)
    if frozenset(entity) in others:
        raise QuotaError(f"Ignoring duplicate entity {dict(entity)}")
    ops: dict[str, float | None] = {}
    for op in entry.ops:
        if op.key in ops:
            raise QuotaError(f"Duplicate quota key {op.key} not updating quota for this entity {dict(entity)}")
        if not op.remove:
            check_value(keys, op.key, op.value)
        ops[op.key] = None if op.remove else op.value
    return ops


def _result(entry: AlterEntryData, code: ErrorCode, message: str | None = None) -> AlteredEntryData:
    return AlteredEntryData(
        error_code=code,
        error_message=message,
        entity=[AlterEntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity],
    )
