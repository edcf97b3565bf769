"""ControlledShutdown: a broker asks its controller to be stopped, in clusters with ZooKeeper.

Versions 0-3; version 0 has no client id in its header. No broker of this cluster asks over the network, and none is
the controller of another one: STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers where the controller is elsewhere.
Kafka without ZooKeeper closes the connection.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import ControlledShutdownRequest, ControlledShutdownResponse

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(_request: ControlledShutdownRequest, _call: Call) -> ControlledShutdownResponse:
    """Refuse it."""
    return ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, remaining_partitions=[])
