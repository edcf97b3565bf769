"""StopReplica: a controller takes replicas from a broker, in clusters with ZooKeeper.

Versions 0-4. Only this broker controls its cluster, so a client that sends this is an outdated controller:
STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
connection.
"""

from typing import Any, Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)


def handle(request: StopReplicaRequest, call: Call) -> Any:
    """Refuse it."""
    return refuse(request, call.api_version, ErrorCode.STALE_CONTROLLER_EPOCH)


def refuse(request: StopReplicaRequest, _version: int, code: ErrorCode) -> StopReplicaResponse:
    """The error stands at each partition; the versions list them in three ways."""
    named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    for topic in request.topic_states:
        named += [(topic.topic_name, each.partition_index) for each in topic.partition_states]
    errors = [
        StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=code) for name, index in named
    ]
    return StopReplicaResponse(error_code=code, partition_errors=errors)
