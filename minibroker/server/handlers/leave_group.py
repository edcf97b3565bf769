"""LeaveGroup: members leave a group, or an operator removes them.

Versions 0-5: one member up to version 2, from version 3 on any number of them, each with an outcome of its own
(KIP-345). A static member can be named by its instance id alone. The reason (version 5) is not looked at.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_group
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from minibroker_protocol.schema import first_version

_FIRST_WITH_MANY: Final = first_version(LeaveGroupRequest, "members")

NEEDS: Final = on_group(Operation.READ)


def handle(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """Remove the members; the others have to join again (`GroupCoordinatorService.leaveGroup`)."""
    coordinator = call.services.groups
    many = call.api_version >= _FIRST_WITH_MANY
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
    code = coordinator.status(request.group_id, call.node)
    if code:
        return LeaveGroupResponse(error_code=code)
    codes = coordinator.classic.leave(request.group_id, leaving)
    outcomes = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
        for each, code in zip(leaving, codes, strict=True)
    ]
    if many:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=outcomes)
    return LeaveGroupResponse(error_code=outcomes[0].error_code)
