"""InitializeShareGroupState: begin the state of share-partitions, as the group coordinator asks (KIP-932).

Version 0. A state that exists is begun again, unless its epoch is higher (FENCED_STATE_EPOCH). Errors of all these
APIs: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE; UNKNOWN_TOPIC_OR_PARTITION and, for a
negative number, INVALID_REQUEST. A request without a group has an empty answer, as in Kafka.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker.server.requests.share.states import answer_each
from minibroker_protocol.messages.share_group_state import (
    InitializedPartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(request: InitializeShareGroupStateRequest, call: Call) -> Steps[InitializeShareGroupStateResponse]:
    """Begin each state (`ShareCoordinatorService.initializeState`)."""
    states, node = call.services.share_states, call.node

    def initialize(key: SharePartitionKey, asked: InitializedPartition) -> PartitionResult:
        code, message = states.initialize(key, asked.state_epoch, asked.start_offset, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    results = yield from answer_each(request, initialize, InitializeStateResult, may_be_empty=True)
    return InitializeShareGroupStateResponse(results=results)
