"""Heartbeat: a member of a group is alive, and learns that the group rebalances.

Versions 0-4. While the coordinator loads, every heartbeat is answered NONE, as by Kafka.
"""

from typing import Final

from minibroker.coordinators.groups.classic.group import GroupState
from minibroker.coordinators.groups.consumer.classic_members import ClassicMembers
from minibroker.coordinators.groups.modern.answers import GroupRefusedError
from minibroker.requests.call import Call
from minibroker.requests.requirements import on_group
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

NEEDS: Final = on_group(Operation.READ)


def handle(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    """Begin the member's session again (`GroupCoordinator.handleHeartbeat`)."""
    return HeartbeatResponse(error_code=_beat(request, call))


def _beat(request: HeartbeatRequest, call: Call) -> ErrorCode:
    coordinator = call.services.groups
    code = coordinator.status(request.group_id, call.node)
    if code:
        return ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code
    consumers = coordinator.store.get_consumer(request.group_id)
    if consumers is not None:
        members = ClassicMembers(coordinator.consumers, consumers, call.core.topics)
        try:
            members.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
        except GroupRefusedError as error:
            return error.code
        return ErrorCode.NONE
    group = coordinator.store.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.validate_generation(request.member_id, request.group_instance_id, request.generation_id)
    if code:
        return code
    coordinator.rebalances.restart_session(group, group.members[request.member_id])
    rebalancing = group.is_in(GroupState.PREPARING_REBALANCE)
    return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE
