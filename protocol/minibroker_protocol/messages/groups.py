"""Groups: their coordinators, the classic protocol of members, and what administrators ask of all groups."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    empty,
    message,
    nullable,
    since,
    structure,
    versions,
)


@message(versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """FindCoordinator (key 10): which broker keeps a group or a transactional id.

    `key_type`: 0 for a group, 1 for a transactional id. From version 4 on, several keys of one type (KIP-699).
    """

    key: Annotated[String, versions("0-3")] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[Array[String], since(4)] = field(default_factory=empty)


@structure
class Coordinator:
    """Where the coordinator of one key listens, or why there is none."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: NullableString


@message(versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """One coordinator at the top up to version 3, one for each key later."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, versions("0-3")] = 0
    error_message: Annotated[NullableString, versions("1-3")] = None
    node_id: Annotated[Int32, versions("0-3")] = 0
    host: Annotated[String, versions("0-3")] = ""
    port: Annotated[Int32, versions("0-3")] = 0
    coordinators: Annotated[Array[Coordinator], since(4)] = field(default_factory=empty)


@structure
class JoinGroupRequestProtocol:
    """A way to assign partitions that the member can go along with; `metadata` is its subscription."""

    name: String
    metadata: Bytes


@message(versions="0-9", flexible="6+")
class JoinGroupRequest:
    """JoinGroup (key 11): become a member of a group, and learn its generation.

    `member_id` is empty at first; `protocols` begins with the one that the member prefers.

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


@structure
class SyncGroupRequestAssignment:
    """The assignment that the leader gives to one member."""

    member_id: String
    assignment: Bytes


@message(versions="0-5", flexible="4+")
class SyncGroupRequest:
    """SyncGroup (key 14): the leader hands in the assignments, every member takes its own.

    `assignments` is empty in the requests of all members but the leader.
    """

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignments: Array[SyncGroupRequestAssignment]


@message(versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The assignment of the member that asked."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignment: Bytes


@message(versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Heartbeat (key 12): a member of a group is alive.

    A heartbeat counts for one generation of the group.
    """

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None


@message(versions="0-4", flexible="4+")
class HeartbeatResponse:
    """`error_code` also says that the group is rebalancing."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16


@structure
class MemberIdentity:
    """A member by its id; a static one by its instance id, with or without the member id."""

    member_id: String
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, since(5)] = None


@message(versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """LeaveGroup (key 13): members leave a group, or an operator removes them (KIP-345).

    One member up to version 2, any number of them later.
    """

    group_id: String
    member_id: Annotated[String, versions("0-2")] = ""
    members: Annotated[Array[MemberIdentity], since(3)] = field(default_factory=empty)


@structure
class MemberResponse:
    """The outcome for one member."""

    member_id: String
    group_instance_id: NullableString
    error_code: Int16


@message(versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """From version 3 on each member has an outcome of its own."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    members: Annotated[Array[MemberResponse], since(3)] = field(default_factory=empty)


@message(versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """DescribeGroups (key 15): the state and the members of groups.

    The groups by name.
    """

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


@message(versions="0-5", flexible="3+")
class ListGroupsRequest:
    """ListGroups (key 16): every group that the broker keeps.

    Empty filters let every group through (KIP-518 for states, KIP-848 for types).
    """

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


@message(versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    """DeleteGroups (key 42): forget groups that have no members, with their offsets (KIP-229).

    The groups by name.
    """

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
