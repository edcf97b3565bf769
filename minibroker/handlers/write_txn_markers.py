"""WriteTxnMarkers: another coordinator, or an administrator who aborts a hanging transaction, ends it in logs (KIP-98).

Versions 0-2. The marker is written whether or not a transaction is open. Errors: see `write_marker`.
"""

from typing import Final

from minibroker.coordinators.transactions.markers import Marker, write_marker
from minibroker.requests.call import Call
from minibroker.requests.declarations import topics_at
from minibroker.requests.requirements import on_cluster
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NAMES: Final = topics_at("markers.topics.name", "partition_indexes")
NEEDS: Final = on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION)


def handle(request: WriteTxnMarkersRequest, call: Call) -> Steps[WriteTxnMarkersResponse]:
    """Write each marker, and say for each partition whether it is there."""
    results: list[WritableTxnMarkerResult] = []
    for marker in request.markers:
        result = yield from _write(marker, call)
        results.append(result)
    return WriteTxnMarkersResponse(markers=results)


def _write(marker: WritableTxnMarker, call: Call) -> Steps[WritableTxnMarkerResult]:
    end = Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    topics: list[WritableTxnMarkerTopicResult] = []
    for topic in marker.topics:
        partitions: list[WritableTxnMarkerPartitionResult] = []
        for index in topic.partition_indexes:
            code = write_marker(call.core, topic.name, index, end, node=call.node)
            partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
            yield
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
        yield
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
