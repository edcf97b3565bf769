"""DeleteGroups (key 42): forget groups that have no members, with their offsets (KIP-229)."""

from minibroker_protocol.schema import Array, Int16, Int32, String, message, structure


@message(versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """The groups by name."""

    groups_names: Array[String]


@structure
class DeletableGroupResult:
    """The outcome for one group."""

    group_id: String
    error_code: Int16


@message(versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """One outcome per group asked."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult]
