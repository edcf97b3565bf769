"""DescribeClientQuotas (key 48): the limits of users, client ids and addresses (KIP-546)."""

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
    """A filter of one part of an entity: `match_type` 0 exactly `match`, 1 the default, 2 anything but missing."""

    entity_type: String
    match_type: Int8
    match: NullableString


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """All components have to match; with `strict` an entity must have no further part."""

    components: Array[ComponentData]
    strict: Bool


@structure
class EntityData:
    """One part of an entity: its type (`user`, `client-id`, `ip`) and its name; null is the default of the type."""

    entity_type: String
    entity_name: NullableString


@structure
class ValueData:
    """A limit by its key, per second."""

    key: String
    value: Float64


@structure
class EntryData:
    """An entity and its limits."""

    entity: Array[EntityData]
    values: Array[ValueData]


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The entries are null where there is an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    entries: NullableArray[EntryData] = None
