"""ReadShareGroupState: read the state of share-partitions, as the leader of a partition asks (KIP-932).

Version 0. The leader's epoch is noted: an earlier one is FENCED_LEADER_EPOCH from then on. INVALID_REQUEST where no
state was begun. A request without a group, or with a topic without partitions, has an empty answer, as in Kafka.
"""

from typing import Final

from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal
from minibroker.requests.requirements import on_cluster
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)
REFUSAL: Final = Refusal(explained=True)


def handle(request: ReadShareGroupStateRequest, call: Call) -> Steps[ReadShareGroupStateResponse]:
    """Return each state (`ShareCoordinatorService.readState`)."""
    results: list[ReadStateResult] = []
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return ReadShareGroupStateResponse(results=results)
    for topic in request.topics:
        partitions: list[PartitionResult] = []
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            outcome = call.services.share_states.read(key, each.leader_epoch, call.node)
            batches = [
                StateBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    delivery_state=batch.state,
                    delivery_count=batch.deliveries,
                )
                for batch in outcome.batches
            ]
            partitions.append(
                PartitionResult(
                    partition=each.partition,
                    error_code=outcome.code,
                    error_message=outcome.message,
                    state_epoch=outcome.state_epoch,
                    start_offset=outcome.start_offset,
                    state_batches=batches,
                )
            )
            yield
        results.append(ReadStateResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateResponse(results=results)
