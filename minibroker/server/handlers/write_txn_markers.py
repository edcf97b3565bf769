"""WriteTxnMarkers: another coordinator, or an administrator who aborts a hanging transaction, ends it in logs (KIP-98).

Versions 0-2. The marker is written whether or not a transaction is open. Errors: see `write_marker`.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.transactions.markers import Marker, write_marker
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NAMES: Final = topics_at("markers.topics.name", "partition_indexes")
NEEDS: Final = on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION)


def handle(request: WriteTxnMarkersRequest, call: Call) -> Steps[WriteTxnMarkersResponse]:
    """Write each marker and return an error code for each partition."""
    results: list[WritableTxnMarkerResult] = []
    for marker in request.markers:
        end = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        result = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
        results.append(result)
        for topic in marker.topics:
            partitions: list[WritableTxnMarkerPartitionResult] = []
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            for index in topic.partition_indexes:
                code = write_marker(call.core, topic.name, index, end, node=call.node)
                partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                yield
    return WriteTxnMarkersResponse(markers=results)
