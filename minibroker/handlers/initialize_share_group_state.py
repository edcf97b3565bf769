"""InitializeShareGroupState: begin the state of share-partitions, as the group coordinator asks (KIP-932).

Version 0. A state that exists is begun again, unless its epoch is higher (FENCED_STATE_EPOCH). Errors of all these
APIs: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE; UNKNOWN_TOPIC_OR_PARTITION and, for a
negative number, INVALID_REQUEST. A request without a group has an empty answer, as in Kafka.
"""

from typing import Final

from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.requests.call import Call
from minibroker.requests.requirements import on_cluster
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(request: InitializeShareGroupStateRequest, call: Call) -> Steps[InitializeShareGroupStateResponse]:
    """Begin each state (`ShareCoordinatorService.initializeState`)."""
    results: list[InitializeStateResult] = []
    if not request.group_id:
        return InitializeShareGroupStateResponse(results=results)
    for topic in request.topics:
        partitions: list[PartitionResult] = []
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            outcome = call.services.share_states.initialize(key, each.state_epoch, each.start_offset, call.node)
            partitions.append(
                PartitionResult(partition=each.partition, error_code=outcome.code, error_message=outcome.message)
            )
            yield
        results.append(InitializeStateResult(topic_id=topic.topic_id, partitions=partitions))
    return InitializeShareGroupStateResponse(results=results)
