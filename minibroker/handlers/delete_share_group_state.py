"""DeleteShareGroupState: delete the state of share-partitions, as the group coordinator asks (KIP-932).

Version 0. NONE also where there is no state. A request without a group, or with a topic without partitions, has an
empty answer, as in Kafka.
"""

from typing import Final

from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.requests.call import Call
from minibroker.requests.requirements import on_cluster
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import Operation
from minibroker_protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(request: DeleteShareGroupStateRequest, call: Call) -> Steps[DeleteShareGroupStateResponse]:
    """Delete each state (`ShareCoordinatorService.deleteState`)."""
    results: list[DeleteStateResult] = []
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return DeleteShareGroupStateResponse(results=results)
    for topic in request.topics:
        partitions: list[PartitionResult] = []
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            outcome = call.services.share_states.delete(key, call.node)
            partitions.append(
                PartitionResult(partition=each.partition, error_code=outcome.code, error_message=outcome.message)
            )
            yield
        results.append(DeleteStateResult(topic_id=topic.topic_id, partitions=partitions))
    return DeleteShareGroupStateResponse(results=results)
