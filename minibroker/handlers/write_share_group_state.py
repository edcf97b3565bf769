"""WriteShareGroupState: change the state of share-partitions, as the leader of a partition asks (KIP-932).

Versions 0-1. FENCED_STATE_EPOCH and FENCED_LEADER_EPOCH for epochs lower than the state's; -1 is not compared.
INVALID_REQUEST where no state was begun. A request without a group, or with a topic without partitions, has an empty
answer, as in Kafka.
"""

from typing import Final

from minibroker.coordinators.share_state.state import MOST_BATCHES, Change, SharePartitionKey, StateBatch
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal
from minibroker.requests.requirements import on_cluster
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)
REFUSAL: Final = Refusal(explained=True)


def handle(request: WriteShareGroupStateRequest, call: Call) -> Steps[WriteShareGroupStateResponse]:
    """Change each state (`ShareCoordinatorService.writeState`)."""
    results: list[WriteStateResult] = []
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return WriteShareGroupStateResponse(results=results)
    for topic in request.topics:
        partitions: list[PartitionResult] = []
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            batches = [
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
                for batch in each.state_batches[: MOST_BATCHES + 1]  # with more than that the whole is refused
            ]
            change = Change(each.leader_epoch, each.start_offset, each.delivery_complete_count, batches)
            outcome = call.services.share_states.write(key, each.state_epoch, change, call.node)
            partitions.append(
                PartitionResult(partition=each.partition, error_code=outcome.code, error_message=outcome.message)
            )
            yield
        results.append(WriteStateResult(topic_id=topic.topic_id, partitions=partitions))
    return WriteShareGroupStateResponse(results=results)
