"""DeleteGroups (key 42): forget groups that have no members, with their offsets (KIP-229)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int16, Int32, NullableString, String, message, since, structure


@message(versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    """The groups by name."""

    groups_names: Array[String]


@structure
class DeletableGroupResult:
    """The outcome for one group."""

    group_id: String
    error_code: Int16
    error_message: Annotated[NullableString, since(3)] = None


@message(versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    """One outcome per group asked."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult]
