"""ListGroups (key 16): every group that the broker keeps."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import Array, Int16, Int32, String, empty, message, since, structure


@message(versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Empty filters let every group through (KIP-518 for states, KIP-848 for types)."""

    states_filter: Annotated[Array[String], since(4)] = field(default_factory=empty)
    types_filter: Annotated[Array[String], since(5)] = field(default_factory=empty)


@structure
class ListedGroup:
    """One group; `protocol_type` is empty for a group that never had members."""

    group_id: String
    protocol_type: String
    group_state: Annotated[String, since(4)] = ""
    group_type: Annotated[String, since(5)] = ""


@message(versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups that the filters let through."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    groups: Array[ListedGroup]
