"""Handlers for partition reassignments (KIP-455) and leader elections (KIP-460)."""

from collections.abc import Sequence
from typing import Final

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.node import NO_NODE
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.topic_admin import TopicError, assignment_error, refuse_empty_replicas
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles, topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)


@handles(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    needs=on_cluster(Operation.ALTER),
    names=topics_at("topics.name", "partitions.partition_index"),
    refusal=Refusal(everywhere=True),
    deadline="topics",
)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse | DelayedResponse:
    """AlterPartitionReassignments: change the replicas of partitions (KIP-455).

    Versions 0-1 are served. Brokers share one log, so a new replica is in sync immediately and a reassignment is
    complete before the response. The rules are those of Kafka's `ReplicationControlManager`.

    Error codes:

    - NO_REASSIGNMENT_IN_PROGRESS: the request cancels a reassignment, but none is ever in progress.
    - INVALID_REPLICA_ASSIGNMENT: there are no replicas, or a broker is repeated or unknown. Unlike in Kafka, the
      error is also returned if none of the brokers is running.
    - INVALID_REPLICATION_FACTOR: since version 1, the number of replicas would change although the client forbids
      that (KIP-860).
    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist.
    """
    may_resize = request.allow_replication_factor_change
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        outcomes = [
            _serve_partition(topic.name, partition, call, may_resize=may_resize) for partition in topic.partitions
        ]
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=outcomes))
    if not call.core.cluster.save_leaders():
        raise RefusedRequestError(ErrorCode.KAFKA_STORAGE_ERROR)
    return hold(
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_resize,
            error_code=ErrorCode.NONE,
            # Without topics, Kafka returns a default response, whose message is empty.
            error_message=None if request.topics else "",
            responses=responses,
        ),
        request,
        call,
    )


def _serve_partition(
    name: str, requested: ReassignablePartition, call: Call, *, may_resize: bool
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        _reassign(name, requested, call, may_resize=may_resize)
    except TopicError as error:
        code, message = error.code, error.message
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
        raise TopicError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    cluster = call.core.cluster
    _check_replicas(cluster, requested.replicas)
    if not may_resize and len(requested.replicas) != len(partition.replicas):
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(partition.replicas)} to {len(requested.replicas)}",
        )
    if not any(cluster.nodes[node_id].is_up for node_id in requested.replicas):
        raise assignment_error("None of the brokers in the manual partition assignment is up.")
    cluster.reassign(partition, tuple(requested.replicas))


def _check_replicas(cluster: Cluster, replicas: Sequence[int]) -> None:
    """Check that brokers can be a partition's replicas, even in a cluster with one broker.

    Raises:
        TopicError: The list is empty, or a broker is unknown or repeated.
    """
    refuse_empty_replicas([replicas])
    for node_id in sorted(replicas):
        if node_id not in cluster.nodes or node_id in cluster.unregistered:
            raise assignment_error(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if replicas.count(node_id) > 1:
            raise assignment_error(f"The manual partition assignment includes the broker {node_id} more than once.")


def _refuse_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, _version: int, code: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """Refuse a request with an error for the whole response. Partitions are listed without individual errors."""
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=None, topics=topics)


@handles(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    needs=on_cluster(Operation.DESCRIBE),
    refusal=Refusal(whole=_refuse_list_partition_reassignments),
)
def list_partition_reassignments(
    _request: ListPartitionReassignmentsRequest, _call: Call
) -> ListPartitionReassignmentsResponse:
    """ListPartitionReassignments: return no partitions, since none is ever being reassigned (KIP-455).

    Version 0 is served. Brokers share one log, so a reassignment completes immediately.
    """
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])


_PREFERRED: Final = 0
_UNCLEAN: Final = 1


@handles(
    ApiKey.ELECT_LEADERS,
    needs=on_cluster(Operation.ALTER),
    names=topics_at("topic_partitions.topic", "partitions"),
    refusal=Refusal(everywhere=True),
    deadline="topic_partitions",
)
def elect_leaders(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse | DelayedResponse:
    """ElectLeaders: elect the preferred replica of partitions, or any live replica, as leader (KIP-183, KIP-460).

    Versions 0-2 are served; version 0 elects preferred replicas only. A request for all partitions returns those
    that needed an election. The rules are those of Kafka's `ReplicationControlManager`.

    Error codes:

    - ELECTION_NOT_NEEDED: the preferred replica already leads, or an unclean election (type 1) was requested and
      there is a leader.
    - PREFERRED_LEADER_NOT_AVAILABLE: the preferred replica is not in sync.
    - ELIGIBLE_LEADERS_NOT_AVAILABLE: no replica is alive.
    - INVALID_REQUEST: the election type is unknown.
    """
    if request.election_type not in {_PREFERRED, _UNCLEAN}:
        message = f"Unknown election type {request.election_type}"
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST, message)
    unclean = request.election_type == _UNCLEAN
    results: list[ReplicaElectionResult] = []
    for name, indexes in _list_requested(request, call):
        outcomes = [_elect(name, index, call, unclean=unclean) for index in indexes]
        if request.topic_partitions is None:
            outcomes = [
                outcome for outcome in outcomes if ErrorCode(outcome.error_code) is not ErrorCode.ELECTION_NOT_NEEDED
            ]
        results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    if not call.core.cluster.save_leaders():
        raise RefusedRequestError(ErrorCode.KAFKA_STORAGE_ERROR)
    return hold(ElectLeadersResponse(replica_election_results=results), request, call)


def _list_requested(request: ElectLeadersRequest, call: Call) -> list[tuple[str, Sequence[int]]]:
    """Return the topics of the request with their partitions."""
    if request.topic_partitions is None:
        return [(topic.name, range(len(topic.partitions))) for topic in call.core.topics]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _elect(name: str, index: int, call: Call, *, unclean: bool) -> PartitionResult:
    topic = call.core.topics.get(name)
    if topic is None:
        return _build_result(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partition(index)
    if partition is None:
        return _build_result(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if _has_leader(partition, unclean=unclean):
        return _build_result(index, ErrorCode.ELECTION_NOT_NEEDED)
    if call.core.cluster.elect_leader(partition, unclean=unclean):
        return PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)
    return _build_result(
        index, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    )


def _has_leader(partition: Partition, *, unclean: bool) -> bool:
    leader = NO_NODE if partition.leader is None else partition.leader.id
    return leader != NO_NODE if unclean else leader == partition.replicas[0]


def _build_result(index: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message or code.meaning)
