"""DescribeGroups (key 15): the state and the members of groups."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableString,
    String,
    message,
    since,
    structure,
)


@message(versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """The groups by name."""

    groups: Array[String]
    include_authorized_operations: Annotated[Bool, since(3)] = False


@structure
class DescribedGroupMember:
    """A member; its metadata and assignment are bytes that only the group's clients understand."""

    member_id: String
    group_instance_id: Annotated[NullableString, since(4)] = None
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@structure
class DescribedGroup:
    """One group; `protocol_data` is the name of the protocol that its members agreed on.

    From version 6 on a group that is not known is an error, with a sentence that says so (KIP-1043).
    """

    error_code: Int16
    error_message: Annotated[NullableString, since(6)] = None
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: Array[DescribedGroupMember]
    authorized_operations: Annotated[Int32, since(3)] = -(2**31)


@message(versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """One description per group asked."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: Array[DescribedGroup]
