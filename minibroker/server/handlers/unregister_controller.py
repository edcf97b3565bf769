"""UnregisterController: the controller of this cluster stays, and there is no other one (KIP-1312).

Version 0. INVALID_REQUEST for the controller, which is the only voter of its quorum; CONTROLLER_ID_NOT_REGISTERED for
any other id.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import UnregisterControllerRequest, UnregisterControllerResponse

NEEDS: Final = on_cluster(Operation.ALTER)
REFUSAL: Final = Refusal(explained=True)


def handle(request: UnregisterControllerRequest, call: Call) -> UnregisterControllerResponse:
    """Say why not."""
    requested, controller = request.controller_id, call.core.cluster.controller
    if controller is not None and requested == controller.id:
        because = f"Cannot unregister controller {requested} because it is part of the voter set."
        return _refused(ErrorCode.INVALID_REQUEST, because)
    return _refused(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {requested} is not currently registered.")


def _refused(code: ErrorCode, message: str) -> UnregisterControllerResponse:
    return UnregisterControllerResponse(error_code=code, error_message=message)
