"""AlterPartitionReassignments: give partitions other replicas (KIP-455).

Versions 0-1. Brokers share one log, so that a new replica has everything at once: a reassignment is over when the
answer leaves. So there is never one to be taken back (NO_REASSIGNMENT_IN_PROGRESS). As in Kafka's
`ReplicationControlManager`: INVALID_REPLICA_ASSIGNMENT for no replicas, for brokers that are named twice or that
there are not, here also when none of them is up; from version 1 on INVALID_REPLICATION_FACTOR for another number of
replicas, if the client forbids that (KIP-860); UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Sequence
from typing import Final

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.topic_admin import TopicError
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, topics_at
from minibroker.server.requests.held_for_metadata import hold, refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

NAMES: Final = topics_at("topics.name", "partitions.partition_index")
NEEDS: Final = on_cluster(Operation.ALTER)
DEADLINE: Final = "topics"
REFUSAL: Final = Refusal(everywhere=True)


def handle(
    request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse | DelayedResponse:
    """Reassign each partition by itself."""
    may_resize = request.allow_replication_factor_change
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        outcomes = [_outcome(topic.name, each, call, may_resize=may_resize) for each in topic.partitions]
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=outcomes))
    if not call.core.cluster.note():
        refused: AlterPartitionReassignmentsResponse = refusal(request, call)
        return refused
    return hold(
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_resize,
            error_code=ErrorCode.NONE,
            error_message=None if request.topics else "",  # as Kafka says without asking its controller
            responses=responses,
        ),
        request,
        call,
    )


def _outcome(
    name: str, requested: ReassignablePartition, call: Call, *, may_resize: bool
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        _reassign(name, requested, call, may_resize=may_resize)
    except TopicError as error:
        code, message = error.code, str(error) or None
    return ReassignablePartitionResponse(
        partition_index=requested.partition_index, error_code=code, error_message=message
    )


def _reassign(name: str, requested: ReassignablePartition, call: Call, *, may_resize: bool) -> None:
    topic = call.core.topics.get(name)
    if topic is None:
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partition(requested.partition_index)
    if partition is None:
        raise TopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{requested.partition_index}."
        )
    if requested.replicas is None:
        raise TopicError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")
    cluster = call.core.cluster
    _check(cluster, requested.replicas)
    if not may_resize and len(requested.replicas) != len(partition.replicas):
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(partition.replicas)} to {len(requested.replicas)}",
        )
    if not any(cluster.nodes[node_id].is_up for node_id in requested.replicas):
        raise _refusal("None of the brokers in the manual partition assignment is up.")
    cluster.reassign(partition, tuple(requested.replicas))


def _check(cluster: Cluster, replicas: Sequence[int]) -> None:
    """TopicError unless these can be a partition's replicas, also on a broker that is alone."""
    if not replicas:
        raise _refusal("The manual partition assignment includes an empty replica list.")
    for node_id in sorted(replicas):
        if node_id not in cluster.nodes or node_id in cluster.unregistered:
            raise _refusal(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if replicas.count(node_id) > 1:
            raise _refusal(f"The manual partition assignment includes the broker {node_id} more than once.")


def _refusal(message: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
