"""Heartbeat: a member of a group is alive, and learns that the group rebalances.

Versions 0-4. While the coordinator loads, every heartbeat is answered NONE, as by Kafka.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_group
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import HeartbeatRequest, HeartbeatResponse

NEEDS: Final = on_group(Operation.READ)


def handle(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    """Restart the member's session (`GroupCoordinatorService.heartbeat`)."""
    coordinator = call.services.groups
    code = coordinator.status(request.group_id, call.node)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse(error_code=ErrorCode.NONE)
    return HeartbeatResponse(error_code=code or coordinator.classic.heartbeat(request))
