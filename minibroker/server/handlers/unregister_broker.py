"""UnregisterBroker: forget a broker (KIP-500).

Version 0. BROKER_ID_NOT_REGISTERED for an unknown one. One that is down is not listed as fenced any more and is
given no partitions by hand; those that it keeps, it keeps, as in Kafka. One that is up goes down once the answer has
left: a Kafka would stay up but be no part of the cluster. In both cases it is registered again when it is started.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse

NEEDS: Final = on_cluster(Operation.ALTER)
REFUSAL: Final = Refusal(explained=True)


def handle(request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    """Forget it."""
    cluster = call.core.cluster
    node = cluster.nodes.get(request.broker_id)
    if node is None or node.id in cluster.unregistered:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    cluster.unregistered.add(node.id)
    call.core.call_soon(lambda: cluster.stop_node(node.id))
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
