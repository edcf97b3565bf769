"""Handlers for groups: coordinators, the classic protocol for members, and the APIs for administrators."""

import re
from typing import Any, Final

from minibroker.cluster.node import NO_NODE, Node
from minibroker.cluster.routing.slices import ForEach, Served, then
from minibroker.cluster.topic_admin import TopicError
from minibroker.coordinators.coordinator_log import CoordinatorLog, java_hash
from minibroker.coordinators.groups.classic.client_quirks import backs_off, joins_after_lookup
from minibroker.coordinators.groups.classic.coordinator import JoiningClient
from minibroker.coordinators.groups.classic.group import Group, GroupState, Member, Protocol, Reply
from minibroker.coordinators.groups.classic.rebalances import sync_error
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.java_order import bucket, table_size, timeline_order, topic_partition_hash
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, coordinator_keys_at, groups_at, handles
from minibroker.server.requests.requirements import (
    asked_by_handler,
    authorized_operations,
    check_right,
    on_each,
    on_group,
    on_request,
)
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from minibroker_protocol.schema import first_version

_FIRST_WITH_KEYS: Final = first_version(FindCoordinatorRequest, "coordinator_keys")
_FIRST_WITH_SHARE: Final = 6
_SUCCESS_MESSAGE: Final = "NONE"
"""The error message of a successful response before version 4."""
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SHARE_PARTITION: Final = re.compile(r".+:[\w-]{22}:\d{1,10}", re.ASCII | re.DOTALL)
"""The key of a share-partition: group, topic id and partition (`SharePartitionKey.validate`)."""
_NO_PORT: Final = -1


@handles(
    ApiKey.FIND_COORDINATOR,
    needs=on_each(Operation.DESCRIBE, ResourceType.ANY)
    & asked_by_handler("CLUSTER_ACTION on the cluster for share-partitions"),
    names=coordinator_keys_at("coordinator_keys", "key"),
    refusal=Refusal({"node_id": -1, "port": -1}, explained=True),
)
def find_coordinator(request: FindCoordinatorRequest, call: Call) -> Served[FindCoordinatorResponse]:
    """FindCoordinator: return the broker that coordinates a group, a transactional id or a share-partition.

    The coordinator is the leader of the key's partition in the coordinator's topic
    (`KafkaApis.handleFindCoordinatorRequest`). Versions 0-6 are served: transactional ids since version 1, several
    keys per request since version 4 (KIP-699), and keys of share-partitions since version 6 (KIP-932). The
    coordinator's topic is created first if it is missing. Kafka creates it in the background and returns
    COORDINATOR_NOT_AVAILABLE in the meantime, while here the first response already has the coordinator.

    Error codes:

    - COORDINATOR_NOT_AVAILABLE: the partition has no leader.
    - INVALID_REQUEST: a key of a share-partition is not of the form "group:topic id:partition".
    """
    keys = request.coordinator_keys if call.api_version >= _FIRST_WITH_KEYS else [request.key]
    joiner = call.session.early_joiner
    if joiner is not None and request.key_type == _GROUP:
        call.services.groups.rebalances.record_lookup(joiner, keys)
    is_expected = call.services.works_around_clients and joins_after_lookup(call.session.software, call.client_id)
    if is_expected and request.key_type == _GROUP:
        call.services.groups.rebalances.expect_join(request.key)
    if call.api_version >= _FIRST_WITH_KEYS:
        return ForEach(
            keys,
            lambda key: _build_coordinator(key, request.key_type, call),
            lambda coordinators: FindCoordinatorResponse(coordinators=coordinators),
        )
    coordinator = _build_coordinator(request.key, request.key_type, call)
    code = ErrorCode(coordinator.error_code)
    return FindCoordinatorResponse(
        error_code=code,
        error_message=coordinator.error_message or code.meaning if code else _SUCCESS_MESSAGE,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _build_coordinator(key: str, key_type: int, call: Call) -> Coordinator:
    node, code, reason = _find_coordinator(key, key_type, call)
    host, port = ("", _NO_PORT) if node is None else call.address_of(node)
    return Coordinator(
        key=key,
        node_id=NO_NODE if node is None else node.id,
        host=host,
        port=port,
        error_code=code,
        error_message=reason,
    )


def _coordinator_log(key_type: int, call: Call) -> CoordinatorLog | None:
    """Return the coordinator's log for a key type, or None if the request's version does not support the type."""
    services = call.services
    if key_type == _GROUP:
        return services.groups.store.log
    if key_type == _TRANSACTION:
        return services.transactions.store.log
    is_share = key_type == _SHARE and call.api_version >= _FIRST_WITH_SHARE
    return services.share_states.store.log if is_share else None


def _find_coordinator(key: str, key_type: int, call: Call) -> tuple[Node | None, ErrorCode, str]:
    """Return the coordinator of a key, or an error and its message. Create the coordinator's topic if it is missing."""
    log = _coordinator_log(key_type, call)
    if log is None or (key_type == _SHARE and not _SHARE_PARTITION.fullmatch(key)):
        return None, ErrorCode.INVALID_REQUEST, "" if key_type == _SHARE else ErrorCode.INVALID_REQUEST.meaning
    if key_type == _SHARE and not call.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""
    try:
        log.ensure()
    except TopicError as error:
        return None, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{log.name}: {error}"
    node = log.coordinator(key)
    if node is None:
        return None, ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
    return node, ErrorCode.NONE, ""


@handles(ApiKey.JOIN_GROUP, needs=on_group(Operation.READ))
def join_group(request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Reply:
    """JoinGroup: join a group and wait for its next generation.

    Versions 0-9 are served (`GroupCoordinatorService.joinGroup`). The response is immediate if no other member has
    to join. Before version 1 the session timeout is also the rebalance timeout. Since version 4 a dynamic member
    first gets its id (MEMBER_ID_REQUIRED) and then joins under this id, so that a lost response leaves no unused member
    in the group (KIP-394).

    Static members exist since version 5 (KIP-345). A static member that returns without its member id gets a new one
    and takes its old place, and the old member id is fenced. There is no rebalance if the group is stable and keeps its
    protocol. Since version 9 a static leader that returns this way leads without assigning partitions (KIP-814). In
    earlier versions the response names its former member id as the leader.

    Unlike in Kafka, a second JoinGroup from a member ends the first one with REBALANCE_IN_PROGRESS. Kafka never
    answers the first one.
    """
    session = call.session
    client = JoiningClient(
        call.client_id or "",
        call.client_host,
        call.node,
        call.api_version,
        joins_early=session.early_joiner is not None,
        backs_off=call.services.works_around_clients and backs_off(session.software, call.client_id),
    )
    # Copy the metadata, because the receive buffer is reused.
    protocols = [Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
    return call.services.groups.classic.join(request, protocols, client)


_FIRST_WITH_PROTOCOL: Final = first_version(SyncGroupRequest, "protocol_type")


def _authorization_error(request: SyncGroupRequest, call: Call) -> ErrorCode:
    """Return the error for a missing right. A request without a protocol passes, because the handler refuses it."""
    if call.api_version >= _FIRST_WITH_PROTOCOL and None in {request.protocol_type, request.protocol_name}:
        return ErrorCode.NONE
    return check_right(call, Operation.READ, ResourceType.GROUP, request.group_id)


@handles(ApiKey.SYNC_GROUP, needs=on_request(_authorization_error, "READ on the group"))
def sync_group(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Reply:
    """SyncGroup: receive the assignments from the leader, and return each member's own.

    Versions 0-5 are served (`GroupCoordinatorService.syncGroup`). The leader, and members of a stable group, get an
    immediate response. Other members wait for the leader. Assignments are written to the log before any response
    contains them. Since version 5 a member must send its protocol type and name (KIP-559). If they are missing or
    wrong, the error is INCONSISTENT_GROUP_PROTOCOL.

    Unlike in Kafka, a second SyncGroup from a member ends the first one with REBALANCE_IN_PROGRESS, and a member that
    leaves gets UNKNOWN_MEMBER_ID. Kafka never answers such requests.
    """
    if call.api_version >= _FIRST_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    coordinator = call.services.groups
    code = coordinator.status(request.group_id, call.node)
    if code:
        # While a group is being loaded, its rebalance is lost, and old clients do not support
        # COORDINATOR_LOAD_IN_PROGRESS.
        loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if loading else code)
    return coordinator.classic.sync(request)


@handles(ApiKey.HEARTBEAT, needs=on_group(Operation.READ))
def heartbeat(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    """Heartbeat: restart a member's session timeout, and report whether the group is rebalancing.

    Versions 0-4 are served (`GroupCoordinatorService.heartbeat`). While the coordinator is loading, every heartbeat
    gets NONE, as in Kafka.
    """
    coordinator = call.services.groups
    code = coordinator.status(request.group_id, call.node)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse(error_code=ErrorCode.NONE)
    return HeartbeatResponse(error_code=code or coordinator.classic.heartbeat(request))


_FIRST_WITH_MEMBERS: Final = first_version(LeaveGroupRequest, "members")


@handles(ApiKey.LEAVE_GROUP, needs=on_group(Operation.READ))
def leave_group(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """LeaveGroup: remove members from a group, at their own request or at an operator's.

    Versions 0-5 are served (`GroupCoordinatorService.leaveGroup`). The remaining members have to join again. Up to
    version 2 a request names one member. Since version 3 it can name any number of members, each with its own
    result (KIP-345). A static member can be named by its instance id alone. The reason (version 5) is ignored.
    """
    coordinator = call.services.groups
    has_members = call.api_version >= _FIRST_WITH_MEMBERS
    leaving = request.members if has_members else [MemberIdentity(member_id=request.member_id)]
    code = coordinator.status(request.group_id, call.node)
    if code:
        return LeaveGroupResponse(error_code=code)
    codes = coordinator.classic.leave(request.group_id, leaving)
    outcomes = [
        MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
        for member, code in zip(leaving, codes, strict=True)
    ]
    if has_members:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=outcomes)
    return LeaveGroupResponse(error_code=outcomes[0].error_code)


_NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
_FIRST_WITH_UNKNOWN_GROUPS: Final = first_version(DescribedGroup, "error_message")


@handles(ApiKey.DESCRIBE_GROUPS, needs=on_each(Operation.DESCRIBE, ResourceType.GROUP), names=groups_at("groups"))
def describe_groups(request: DescribeGroupsRequest, call: Call) -> ForEach[DescribeGroupsResponse]:
    """DescribeGroups: describe the state and the members of groups.

    Versions 0-6 are served, with instance ids since version 4. Groups are described one by one
    (`GroupCoordinator.handleDescribeGroup`). An unknown group is described as Dead, without an error before version
    6 and with GROUP_ID_NOT_FOUND since then (KIP-1043). The metadata of members is only returned for stable groups.
    Brokers that emulate a release before Kafka 4.0 also return assignments only for stable groups. Since version 3
    a client can request its authorized operations.
    """

    def describe(group_id: str) -> DescribedGroup:
        described = _describe(group_id, call)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = authorized_operations(call, ResourceType.GROUP, group_id)
        return described

    return ForEach(request.groups, describe, lambda described: DescribeGroupsResponse(groups=described))


def _describe(group_id: str, call: Call) -> DescribedGroup:
    store = call.services.groups.store
    code = store.check_readiness(group_id, call.node)
    group = None if code else store.get(group_id)
    described = DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state="" if code else GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=_NO_AUTHORIZED_OPERATIONS,
    )
    if group is None and not code and call.api_version >= _FIRST_WITH_UNKNOWN_GROUPS:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        exists = store.find(group_id) is not None
        described.error_message = f"Group {group_id} {'is not a classic group' if exists else 'not found'}."
    if group is not None:
        described.group_state = group.state.value
        described.protocol_type = group.protocol_type or ""
        described.protocol_data = (group.protocol_name or "") if group.is_in(GroupState.STABLE) else ""
        is_before_4 = call.services.is_before("4.0")
        shows_assignment = group.is_in(GroupState.STABLE) or not is_before_4
        described.members = [
            _describe_member(group, member, shows_assignment=shows_assignment) for member in group.members.values()
        ]
    return described


def _describe_member(group: Group, member: Member, *, shows_assignment: bool) -> DescribedGroupMember:
    stable = group.is_in(GroupState.STABLE)
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if stable else b"",
        member_assignment=member.assignment if shows_assignment else b"",
    )


@handles(ApiKey.LIST_GROUPS, needs=asked_by_handler("DESCRIBE on the cluster, or on each group, or it is hidden"))
def list_groups(request: ListGroupsRequest, call: Call) -> ForEach[ListGroupsResponse]:
    """ListGroups: list the groups that the broker coordinates.

    Versions 0-5 are served, with filters by state since version 4 (KIP-518) and by type since version 5 (KIP-848).
    The types are "classic", "consumer", "share" and "streams". States and types are case-insensitive, and unknown
    ones match no group. The order is that of Kafka's hash tables.
    """
    store = call.services.groups.store
    store.load_all()
    sees_all = call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if store.is_loading else ErrorCode.NONE

    def row(group: AnyGroup) -> ListedGroup | None:
        is_listed = (
            not store.log.coordinator_error(group.group_id, call.node)
            and (sees_all or call.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))
            and (not states or group.state.value.lower() in states)
            and (not types or group.kind in types)
        )
        if not is_listed:
            return None
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.kind,
        )

    return ForEach(
        _sort_in_hash_order(store, is_before_4_0=call.services.is_before("4.0")),
        row,
        lambda rows: ListGroupsResponse(error_code=code, groups=list(filter(None, rows))),
    )


def _sort_in_hash_order(store: GroupStore, *, is_before_4_0: bool) -> list[AnyGroup]:
    """Return groups in the order of Kafka's hash tables: one table per partition, or before 4.0 one for all groups."""
    groups, log = tuple(store.groups()), store.log
    size = table_size((len(groups) if is_before_4_0 else log.partition_count) + 1)
    tables: dict[int, dict[str, AnyGroup]] = {}
    for group in groups:
        name = group.group_id
        if is_before_4_0:
            key = bucket(java_hash(name), size)
        else:
            key = bucket(topic_partition_hash(log.name, log.partition_of(name)), size)
        tables.setdefault(key, {})[name] = group
    ordered: list[AnyGroup] = []
    for key in sorted(tables):
        ordered += tables[key].values() if is_before_4_0 else timeline_order(tables[key])
    return ordered


@handles(ApiKey.DELETE_GROUPS, needs=on_each(Operation.DELETE, ResourceType.GROUP), names=groups_at("groups_names"))
def delete_groups(request: DeleteGroupsRequest, call: Call) -> ForEach[DeleteGroupsResponse]:
    """DeleteGroups: delete groups without members, with their offsets (KIP-229).

    Versions 0-3 are served. Groups are deleted one by one, and a group that is named twice is deleted once
    (`GroupCoordinator.handleDeleteGroups`). If a deletion cannot be written, the group stays and the response has
    an error, while Kafka returns NONE.

    Error codes:

    - NON_EMPTY_GROUP: the group has members.
    - GROUP_ID_NOT_FOUND: the group does not exist.
    """

    def delete(group_id: str) -> Any:
        return then(_delete(group_id, call), lambda code: DeletableGroupResult(group_id=group_id, error_code=code))

    return ForEach(dict.fromkeys(request.groups_names), delete, lambda results: DeleteGroupsResponse(results=results))


def _delete(group_id: str, call: Call) -> Any:
    """Delete a group. Return an error code, or work that results in one."""
    store = call.services.groups.store
    code = store.check_readiness(group_id, call.node)
    group = None if code else store.find(group_id)
    if group is None:
        return code or ErrorCode.GROUP_ID_NOT_FOUND

    def refusal() -> ErrorCode:
        code = store.check_readiness(group_id, call.node)
        if not code and store.find(group_id) is not group:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return code or (ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP)

    def forget(code: ErrorCode) -> Any:
        return code or store.forget(group, lambda: refusal() or group.offsets.everything(), removes_group=True)

    if isinstance(group, ShareGroup):
        return then(call.services.groups.share_offsets.delete_states(group), forget)
    return forget(ErrorCode.NONE)
