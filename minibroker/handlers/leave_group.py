"""LeaveGroup: members leave a group, or an operator removes them.

Versions 0-5: one member up to version 2, from version 3 on any number of them, each with an outcome of its own
(KIP-345). A static member can be named by its instance id alone. The reason (version 5) is not looked at.
"""

from typing import Final

from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.classic_members import ClassicMembers
from minibroker.coordinators.groups.coordinator import GroupCoordinator
from minibroker.requests.call import Call
from minibroker.requests.requirements import on_group
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from minibroker_protocol.schema import first_version

_FIRST_WITH_MANY: Final = first_version(LeaveGroupRequest, "members")

NEEDS: Final = on_group(Operation.READ)


def handle(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """Remove the members; the others have to join again (`GroupCoordinator.handleLeaveGroup`)."""
    coordinator = call.services.groups
    many = call.api_version >= _FIRST_WITH_MANY
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
    code = coordinator.status(request.group_id, call.node)
    if code:
        return LeaveGroupResponse(error_code=code)
    group, consumers = coordinator.store.get(request.group_id), coordinator.store.get_consumer(request.group_id)
    if consumers is not None:
        codes = ClassicMembers(coordinator.consumers, consumers, call.core.topics).leave(leaving)
    elif group is not None:
        codes = [_leave(coordinator, group, each) for each in leaving]
    else:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
    outcomes = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
        for each, code in zip(leaving, codes, strict=True)
    ]
    if many:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=outcomes)
    return LeaveGroupResponse(error_code=outcomes[0].error_code)


def _leave(coordinator: GroupCoordinator, group: Group, leaving: MemberIdentity) -> ErrorCode:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if member_id in group.pending:
        coordinator.rebalances.remove_pending(group, member_id)
        return ErrorCode.NONE
    if not member_id:
        member_id = "" if instance_id is None else group.static_members.get(instance_id, "")
    code = group.validate_member(member_id, instance_id)
    if not code:
        coordinator.rebalances.remove(group, group.members[member_id])
    return code
