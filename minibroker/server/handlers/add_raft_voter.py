"""AddRaftVoter: have a controller become a voter of the metadata quorum (KIP-853).

Versions 0-1. The voters are fixed, as in a Kafka with kraft.version 0: UNSUPPORTED_VERSION, after the checks of
Kafka's `KafkaRaftClient`: INCONSISTENT_CLUSTER_ID for another cluster's id, INVALID_REQUEST without a voter.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import AddRaftVoterRequest, AddRaftVoterResponse
from minibroker_protocol.primitives import ZERO_UUID

NEEDS: Final = on_cluster(Operation.ALTER)
REFUSAL: Final = Refusal(explained=True)


def handle(request: AddRaftVoterRequest, call: Call) -> AddRaftVoterResponse:
    """Refuse it."""
    cluster_id = call.core.cluster.cluster_id
    if request.cluster_id not in {None, cluster_id}:
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
    elif request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        code, message = ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    else:
        code = ErrorCode.UNSUPPORTED_VERSION
        message = "Cluster doesn't support adding voter because the kraft.version feature is 0"
    return AddRaftVoterResponse(error_code=code, error_message=message)
