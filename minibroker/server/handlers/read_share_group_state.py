"""ReadShareGroupState: read the state of share-partitions, as the leader of a partition asks (KIP-932).

Version 0. The leader's epoch is noted: an earlier one is FENCED_LEADER_EPOCH from then on. INVALID_REQUEST where no
state was begun. A request without a group, or with a topic without partitions, has an empty answer, as in Kafka.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker.server.requests.share.states import answer_each
from minibroker_protocol.messages.share_group_state import (
    ReadPartition,
    ReadPartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)
REFUSAL: Final = Refusal(explained=True)


def handle(request: ReadShareGroupStateRequest, call: Call) -> Steps[ReadShareGroupStateResponse]:
    """Return each state (`ShareCoordinatorService.readState`)."""
    states, node = call.services.share_states, call.node

    def read(key: SharePartitionKey, asked: ReadPartition) -> ReadPartitionResult:
        outcome = states.read(key, asked.leader_epoch, node)
        batches = [
            StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.deliveries,
            )
            for batch in outcome.batches
        ]
        return ReadPartitionResult(
            partition=key.partition,
            error_code=outcome.code,
            error_message=outcome.message,
            state_epoch=outcome.state_epoch,
            start_offset=outcome.start_offset,
            state_batches=batches,
        )

    return ReadShareGroupStateResponse(results=(yield from answer_each(request, read, ReadStateResult)))
