"""DescribeClientQuotas (key 48): TODO."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    message,
    structure,
)


@structure
class ComponentData:
    """TODO."""

    entity_type: String
    match_type: Int8
    match: NullableString


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """TODO."""

    components: Array[ComponentData]
    strict: Bool


@structure
class EntityData:
    """TODO."""

    entity_type: String
    entity_name: NullableString


@structure
class ValueData:
    """TODO."""

    key: String
    value: Float64


@structure
class EntryData:
    """TODO."""

    entity: Array[EntityData]
    values: Array[ValueData]


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    entries: NullableArray[EntryData]
