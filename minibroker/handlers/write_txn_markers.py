"""WriteTxnMarkers: another coordinator, or an administrator who aborts a hanging transaction, ends it in logs (KIP-98).

Versions 0-2. The marker is written whether or not a transaction is open. Errors: see `write_marker`.
"""

from minibroker.call import Call
from minibroker.transactions.markers import Marker, write_marker
from minibroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    """Write each marker, and say for each partition whether it is there."""
    return WriteTxnMarkersResponse(markers=[_write(marker, call) for marker in request.markers])


def _write(marker: WritableTxnMarker, call: Call) -> WritableTxnMarkerResult:
    end = Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=write_marker(
                            call.state,
                            topic.name,
                            index,
                            end,
                            node=call.node,
                        ),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
