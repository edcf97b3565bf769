"""AlterClientQuotas (key 49): TODO."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Float64,
    Int32,
    NullableString,
    String,
    message,
    structure,
)


@structure
class EntityData:
    """TODO."""

    entity_type: String
    entity_name: NullableString


@structure
class OpData:
    """TODO."""

    key: String
    value: Float64
    remove: Bool


@structure
class EntryData:
    """TODO."""

    entity: Array[EntityData]
    ops: Array[OpData]


@message(versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """TODO."""

    entries: Array[EntryData]
    validate_only: Bool


@message(versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    entries: Array[EntryData]
