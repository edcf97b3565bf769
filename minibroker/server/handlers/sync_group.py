"""SyncGroup: the leader hands in the assignments, and every member is given its own.

Versions 0-5. Members wait for their leader. The assignments are in the log before any response has them. From
version 5 on a member says which protocol it believes in, and has to (INCONSISTENT_GROUP_PROTOCOL, KIP-559).

Unlike Kafka, a second SyncGroup of a member ends the first one, with REBALANCE_IN_PROGRESS, and a member that leaves is
answered UNKNOWN_MEMBER_ID: Kafka never answers those.
"""

from typing import Final

from minibroker.coordinators.groups.classic.group import Reply
from minibroker.coordinators.groups.classic.rebalances import sync_error
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import checked, missing
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import SyncGroupRequest, SyncGroupResponse
from minibroker_protocol.schema import first_version

_FIRST_WITH_PROTOCOL: Final = first_version(SyncGroupRequest, "protocol_type")


def _right_error(request: SyncGroupRequest, call: Call) -> ErrorCode:
    """A request without its protocol is refused for that, from any member."""
    if call.api_version >= _FIRST_WITH_PROTOCOL and None in {request.protocol_type, request.protocol_name}:
        return ErrorCode.NONE
    return missing(call, Operation.READ, ResourceType.GROUP, request.group_id)


NEEDS: Final = checked(_right_error, "READ on the group")


def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Reply:
    """Answer immediately to the leader, and to members of a stable group (`GroupCoordinatorService.syncGroup`)."""
    if call.api_version >= _FIRST_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    coordinator = call.services.groups
    code = coordinator.status(request.group_id, call.node)
    if code:
        # What is loading has forgotten its rebalance. Old clients do not know the code that says so.
        loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if loading else code)
    return coordinator.classic.sync(request)
