"""SyncGroup: the leader hands in the assignments, and every member is given its own.

Versions 0-5. Members wait for their leader. The assignments are in the log before any response has them. From
version 5 on a member says which protocol it believes in, and has to (INCONSISTENT_GROUP_PROTOCOL, KIP-559).

Unlike Kafka, a second SyncGroup of a member ends the first one, with REBALANCE_IN_PROGRESS, and a member that leaves is
answered UNKNOWN_MEMBER_ID: Kafka never answers those.
"""

from typing import Final

from minibroker.coordinators.groups.classic.group import Group, GroupState
from minibroker.coordinators.groups.classic.members import Reply
from minibroker.coordinators.groups.classic.responses import sync_error, synced
from minibroker.coordinators.groups.consumer.classic_members import ClassicMembers
from minibroker.coordinators.groups.modern.answers import GroupRefusedError
from minibroker.requests.call import Call
from minibroker.requests.requirements import checked, missing
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minibroker_protocol.schema import first_version

_FIRST_WITH_PROTOCOL: Final = first_version(SyncGroupRequest, "protocol_type")


def _right_error(request: SyncGroupRequest, call: Call) -> ErrorCode:
    """A request without its protocol is refused for that, from any member."""
    if call.api_version >= _FIRST_WITH_PROTOCOL and None in {request.protocol_type, request.protocol_name}:
        return ErrorCode.NONE
    return missing(call, Operation.READ, ResourceType.GROUP, request.group_id)


NEEDS: Final = checked(_right_error, "READ on the group")


def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Reply:
    """Answer at once to the leader, and to every member of a stable group (`GroupCoordinator.handleSyncGroup`)."""
    if call.api_version >= _FIRST_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    coordinator = call.services.groups
    code = coordinator.status(request.group_id, call.node)
    if code:
        # What is loading has forgotten its rebalance. Old clients do not know the code that says so.
        loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if loading else code)
    consumers = coordinator.store.get_consumer(request.group_id)
    if consumers is not None:
        return _sync_consumer(ClassicMembers(coordinator.consumers, consumers, call.core.topics), request)
    group = coordinator.store.get(request.group_id)
    return sync_error(ErrorCode.UNKNOWN_MEMBER_ID) if group is None else _sync(group, request, call)


def _sync_consumer(members: ClassicMembers, request: SyncGroupRequest) -> SyncGroupResponse:
    """In a group of the consumer protocol (`classicGroupSyncToConsumerGroup`)."""
    try:
        assignment = members.sync(request)
    except GroupRefusedError as error:
        return sync_error(error.code)
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment,
    )


def _sync(group: Group, request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Reply:
    code = _validate(group, request)
    if code:
        return sync_error(code)
    member = group.members[request.member_id]
    rebalances = call.services.groups.rebalances
    if member.joins_twice:
        member.joins_twice = False
        rebalances.prepare(group)
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    rebalances.note_sync(group, member)
    if group.is_in(GroupState.STABLE):
        rebalances.restart_session(group, member)
        return synced(group, member)
    rebalances.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    reply = member.sync = Reply(call.core)
    if group.leader == member.member_id:
        rebalances.assign(group, {each.member_id: bytes(each.assignment) for each in request.assignments})
    outcome: SyncGroupResponse | Reply = reply.outcome()
    return outcome


def _validate(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """NONE if the member may have an assignment in this state of the group."""
    code = group.validate_generation(request.member_id, request.group_instance_id, request.generation_id)
    if code:
        return code
    named = request.protocol_type, request.protocol_name
    known = group.protocol_type, group.protocol_name
    if any(name not in {None, own} for name, own in zip(named, known, strict=True)):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.PREPARING_REBALANCE) else ErrorCode.NONE
