"""DeleteShareGroupState: delete the state of share-partitions, as the group coordinator asks (KIP-932).

Version 0. NONE also where there is no state. A request without a group, or with a topic without partitions, has an
empty answer, as in Kafka.
"""

from typing import Any, Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker.server.requests.share.states import answer_each
from minibroker_protocol.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(request: DeleteShareGroupStateRequest, call: Call) -> Steps[DeleteShareGroupStateResponse]:
    """Delete each state (`ShareCoordinatorService.deleteState`)."""
    states, node = call.services.share_states, call.node

    def delete(key: SharePartitionKey, _: Any) -> PartitionResult:
        code, message = states.delete(key, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return DeleteShareGroupStateResponse(results=(yield from answer_each(request, delete, DeleteStateResult)))
