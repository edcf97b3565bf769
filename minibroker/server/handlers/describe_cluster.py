"""DescribeCluster: the brokers that are up, and which of them is the controller (KIP-700).

Versions 0-2. From version 1 on a client says what it believes to have reached: every node here is a broker, and who
asks for controllers gets MISMATCHED_ENDPOINT_TYPE, or UNSUPPORTED_ENDPOINT_TYPE for what is neither (KIP-919). From
version 2 on brokers that are down are listed as fenced, if the client wants to know (KIP-1073). Kafka names a
broker at random as the controller, which passes on what comes to it; here it is the one in Metadata, too.
"""

from typing import Final

from minibroker.cluster.node import NO_NODE
from minibroker.server.requests.authorized_operations import authorized_cluster_operations
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NOT_ASKED: Final = -(2**31)

NEEDS: Final = asked_by_handler("DESCRIBE on the cluster, to get the authorized operations")


def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """Describe the cluster as this client should see it."""
    if request.endpoint_type == _CONTROLLERS:
        return _refusal(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return _refusal(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    cluster = call.core.cluster
    registered = [node for node in cluster.nodes.values() if node.id not in cluster.unregistered]
    brokers: list[DescribeClusterBroker] = []
    for node in registered:
        if not node.is_up and not request.include_fenced_brokers:
            continue
        host, port = call.address_of(node)
        brokers.append(
            DescribeClusterBroker(broker_id=node.id, host=host, port=port, rack=node.rack, is_fenced=not node.is_up)
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=call.core.cluster.cluster_id,
        controller_id=NO_NODE if cluster.controller is None else cluster.controller.id,
        brokers=brokers,
        cluster_authorized_operations=authorized_cluster_operations(call)
        if request.include_cluster_authorized_operations
        else _NOT_ASKED,
    )


def _refusal(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", brokers=[])
