"""ReadShareGroupStateSummary: read the offsets of share-partitions, as the group coordinator asks (KIP-932).

Versions 0-1. Offsets are -1 where no state was begun. From version 1 on it returns how many offsets are done with
(KIP-1226). A request without a group, or with a topic without partitions, has an empty answer, as in Kafka.
"""

from typing import Final

from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal
from minibroker.requests.requirements import on_cluster
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)
REFUSAL: Final = Refusal(explained=True)


def handle(request: ReadShareGroupStateSummaryRequest, call: Call) -> Steps[ReadShareGroupStateSummaryResponse]:
    """Return the offsets of each state (`ShareCoordinatorService.readStateSummary`)."""
    results: list[ReadStateSummaryResult] = []
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return ReadShareGroupStateSummaryResponse(results=results)
    for topic in request.topics:
        partitions: list[PartitionResult] = []
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            outcome = call.services.share_states.summary(key, call.node)
            partitions.append(
                PartitionResult(
                    partition=each.partition,
                    error_code=outcome.code,
                    error_message=outcome.message,
                    state_epoch=outcome.state_epoch,
                    leader_epoch=outcome.leader_epoch,
                    start_offset=outcome.start_offset,
                    delivery_complete_count=outcome.delivery_complete_count,
                )
            )
            yield
        results.append(ReadStateSummaryResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateSummaryResponse(results=results)
