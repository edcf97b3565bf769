"""WriteShareGroupState: change the state of share-partitions, as the leader of a partition asks (KIP-932).

Versions 0-1. FENCED_STATE_EPOCH and FENCED_LEADER_EPOCH for epochs lower than the state's; -1 is not compared.
INVALID_REQUEST where no state was begun. A request without a group, or with a topic without partitions, has an empty
answer, as in Kafka.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import MOST_BATCHES, Change, SharePartitionKey, StateBatch
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker.server.requests.share.states import answer_each
from minibroker_protocol.messages.share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
    WrittenPartition,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)
REFUSAL: Final = Refusal(explained=True)


def handle(request: WriteShareGroupStateRequest, call: Call) -> Steps[WriteShareGroupStateResponse]:
    """Change each state (`ShareCoordinatorService.writeState`)."""
    states, node = call.services.share_states, call.node

    def write(key: SharePartitionKey, asked: WrittenPartition) -> PartitionResult:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
            for batch in asked.state_batches[: MOST_BATCHES + 1]  # with more than that the whole is refused
        ]
        change = Change(asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)
        code, message = states.write(key, asked.state_epoch, change, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return WriteShareGroupStateResponse(results=(yield from answer_each(request, write, WriteStateResult)))
