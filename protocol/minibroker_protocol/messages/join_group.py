"""JoinGroup (key 11): become a member of a group, and learn its generation."""

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
    nullable,
    since,
    structure,
)


@structure
class JoinGroupRequestProtocol:
    """A way to assign partitions that the member can go along with; `metadata` is its subscription."""

    name: String
    metadata: Bytes


@message(versions="0-9", flexible="6+")
class JoinGroupRequest:
    """`member_id` is empty at first; `protocols` begins with the one that the member prefers.

    Before version 1 the session timeout is the rebalance timeout, too.
    """

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1)] = -1
    member_id: String
    group_instance_id: Annotated[NullableString, since(5)] = None
    protocol_type: String
    protocols: Array[JoinGroupRequestProtocol]
    reason: Annotated[NullableString, since(8)] = None


@structure
class JoinGroupResponseMember:
    """A member as the leader sees it."""

    member_id: String
    group_instance_id: Annotated[NullableString, since(5)] = None
    metadata: Bytes


@message(versions="0-9", flexible="6+")
class JoinGroupResponse:
    """`members` is empty for everyone but the leader, which assigns.

    With `skip_assignment` the leader learns the members but leaves the assignment as it is (KIP-814).
    """

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: Annotated[NullableString, since(7)] = None
    protocol_name: Annotated[NullableString, nullable("7+")]
    leader: String
    skip_assignment: Annotated[Bool, since(9)] = False
    member_id: String
    members: Array[JoinGroupResponseMember]
