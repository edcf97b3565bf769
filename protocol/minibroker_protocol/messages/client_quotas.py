"""Client quotas (KIP-546)."""

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
    """DescribeClientQuotas (key 48): the limits of users, client ids and addresses (KIP-546).

    All components have to match; with `strict` an entity must have no further part.
    """

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


@structure
class AlterEntityData:
    """One part of an entity: its type (`user`, `client-id`, `ip`) and its name; null is the default of the type."""

    entity_type: String
    entity_name: NullableString


@structure
class OpData:
    """A limit by its key, per second; `remove` takes it away, whatever `value` is."""

    key: String
    value: Float64
    remove: Bool


@structure
class AlterEntryData:
    """An entity, and what is to be done to its limits."""

    entity: Array[AlterEntityData]
    ops: Array[OpData]


@message(versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """AlterClientQuotas (key 49): sets and removes limits of users, client ids and addresses (KIP-546).

    With `validate_only` nothing is altered.
    """

    entries: Array[AlterEntryData]
    validate_only: Bool


@structure
class AlteredEntryData:
    """The result of one entry; the message is null where all went well."""

    error_code: Int16
    error_message: NullableString
    entity: Array[AlterEntityData]


@message(versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """An outcome for each entry."""

    throttle_time_ms: Int32 = 0
    entries: Array[AlteredEntryData]
