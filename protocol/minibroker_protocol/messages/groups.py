"""APIs for groups: finding the coordinator, the classic membership protocol, and administration of all group types."""

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
    """FindCoordinator (key 10) finds the coordinator of groups or transactional ids.

    `key_type` is 0 for groups and 1 for transactional ids. From version 4 on, a request can have several keys of
    the same type (KIP-699).
    """

    key: Annotated[String, versions("0-3")] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[Array[String], since(4)] = empty()


@structure
class Coordinator:
    """The address of the coordinator for one key, or an error."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: NullableString


@message(versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinators. Up to version 3, the top-level fields have a single one; later versions have one per key."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, versions("0-3")] = 0
    error_message: Annotated[NullableString, versions("1-3")] = None
    node_id: Annotated[Int32, versions("0-3")] = 0
    host: Annotated[String, versions("0-3")] = ""
    port: Annotated[Int32, versions("0-3")] = 0
    coordinators: Annotated[Array[Coordinator], since(4)] = empty()


@structure
class JoinGroupRequestProtocol:
    """A supported assignment protocol, with the member's subscription as `metadata`."""

    name: String
    metadata: Bytes


@message(versions="0-9", flexible="6+")
class JoinGroupRequest:
    """JoinGroup (key 11) joins a group and returns its generation.

    `member_id` is empty when a member first joins. `protocols` is in order of preference. In version 0, the session
    timeout is also the rebalance timeout.
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
    """A member of the group, as listed in the response to the leader."""

    member_id: String
    group_instance_id: Annotated[NullableString, since(5)] = None
    metadata: Bytes


@message(versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The generation of the group and the member's id.

    Only the leader gets the `members`, because it computes the assignment. If `skip_assignment` is
    true, the leader receives the members but does not compute a new assignment (KIP-814).
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
    """The leader's assignment for one member."""

    member_id: String
    assignment: Bytes


@message(versions="0-5", flexible="4+")
class SyncGroupRequest:
    """SyncGroup (key 14) sends the leader's assignments to the coordinator, and returns the sender's own assignment.

    All members send this request, but only the leader fills in `assignments`.
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
    """The assignment of the requesting member."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignment: Bytes


@message(versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Heartbeat (key 12) keeps a member of the given generation in its group."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None


@message(versions="0-4", flexible="4+")
class HeartbeatResponse:
    """The result of the heartbeat. An `error_code` of REBALANCE_IN_PROGRESS tells the member to rejoin."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16


@structure
class MemberIdentity:
    """A member, identified by its member id.

    A static member is identified by its instance id; its member id is optional.
    """

    member_id: String
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, since(5)] = None


@message(versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """LeaveGroup (key 13) removes members from a group, for the members themselves or for an operator (KIP-345).

    Up to version 2, a request names one member. From version 3 on, it can name any number of members.
    """

    group_id: String
    member_id: Annotated[String, versions("0-2")] = ""
    members: Annotated[Array[MemberIdentity], since(3)] = empty()


@structure
class MemberResponse:
    """The outcome for one member."""

    member_id: String
    group_instance_id: NullableString
    error_code: Int16


@message(versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """The result of the request. From version 3 on, there is also one result per member."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    members: Annotated[Array[MemberResponse], since(3)] = empty()


@message(versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """DescribeGroups (key 15) describes the state and the members of classic groups."""

    groups: Array[String]
    include_authorized_operations: Annotated[Bool, since(3)] = False


@structure
class DescribedGroupMember:
    """A member of the group. Only the group's clients interpret the metadata and the assignment."""

    member_id: String
    group_instance_id: Annotated[NullableString, since(4)] = None
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@structure
class DescribedGroup:
    """A group. `protocol_data` is the name of the protocol on which its members agreed.

    From version 6 on, the entry for an unknown group has an error code and a message (KIP-1043).
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
    """One description per requested group."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: Array[DescribedGroup]


@message(versions="0-5", flexible="3+")
class ListGroupsRequest:
    """ListGroups (key 16) lists the groups of a broker.

    An empty filter matches all groups. KIP-518 added the filter on states, KIP-848 the filter on types.
    """

    states_filter: Annotated[Array[String], since(4)] = empty()
    types_filter: Annotated[Array[String], since(5)] = empty()


@structure
class ListedGroup:
    """A group. `protocol_type` is empty if the group never had members."""

    group_id: String
    protocol_type: String
    group_state: Annotated[String, since(4)] = ""
    group_type: Annotated[String, since(5)] = ""


@message(versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups that match both filters."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    groups: Array[ListedGroup]


@message(versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    """DeleteGroups (key 42) deletes groups without members, and the committed offsets of these groups (KIP-229)."""

    groups_names: Array[String]


@structure
class DeletableGroupResult:
    """The outcome for one group."""

    group_id: String
    error_code: Int16
    error_message: Annotated[NullableString, since(3)] = None


@message(versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    """One result per requested group."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult]
