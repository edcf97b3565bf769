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
    """A filter on one part of an entity.

    A `match_type` of 0 selects the name in `match`, 1 the default entity, and 2 any entity that has this part.
    """

    entity_type: String
    match_type: Int8
    match: NullableString


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """DescribeClientQuotas (key 48) lists the quotas of users, client ids and IP addresses (KIP-546).

    An entity must match all components. If `strict` is true, entities with other parts do not match.
    """

    components: Array[ComponentData]
    strict: Bool


@structure
class EntityData:
    """One part of an entity: a type (`user`, `client-id` or `ip`) and a name. The default entity has a null name."""

    entity_type: String
    entity_name: NullableString


@structure
class ValueData:
    """A quota, with its limit per second."""

    key: String
    value: Float64


@structure
class EntryData:
    """An entity and its quotas."""

    entity: Array[EntityData]
    values: Array[ValueData]


@message(versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The matching entities and their quotas; `entries` is null after an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    entries: NullableArray[EntryData] = None


@structure
class OpData:
    """A quota to set or remove. If `remove` is true, `value` is ignored; otherwise it is the new limit per second."""

    key: String
    value: Float64
    remove: Bool


@structure
class AlterEntryData:
    """An entity and the changes to its quotas."""

    entity: Array[EntityData]
    ops: Array[OpData]


@message(versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """AlterClientQuotas (key 49) sets and removes quotas of users, client ids and IP addresses (KIP-546).

    If `validate_only` is true, the changes are checked but not made.
    """

    entries: Array[AlterEntryData]
    validate_only: Bool


@structure
class AlteredEntryData:
    """The result of one entry; the error message is null if the change succeeded."""

    error_code: Int16
    error_message: NullableString
    entity: Array[EntityData]


@message(versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """One result per entry."""

    throttle_time_ms: Int32 = 0
    entries: Array[AlteredEntryData]
