"""ElectLeaders: have partitions led by their preferred replica, or by any that is alive (KIP-183, KIP-460).

Versions 0-2; version 0 knows preferred replicas only. As in Kafka's `ReplicationControlManager`: ELECTION_NOT_NEEDED
for a partition that the preferred replica leads, or, where a leader at any price is wanted (type 1), that has one;
PREFERRED_LEADER_NOT_AVAILABLE if the preferred replica is not in sync, ELIGIBLE_LEADERS_NOT_AVAILABLE if none is
alive. Asked for all partitions, the response has those that needed an election. INVALID_REQUEST for another type.
"""

from collections.abc import Sequence
from typing import Final

from minibroker.cluster.node import NO_NODE
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.reassignments import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED: Final = 0
_UNCLEAN: Final = 1

NAMES: Final = topics_at("topic_partitions.topic", "partitions")
NEEDS: Final = on_cluster(Operation.ALTER)
DEADLINE: Final = "topic_partitions"


def handle(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse | DelayedResponse:
    """Elect a leader for each partition."""
    if request.election_type not in {_PREFERRED, _UNCLEAN}:
        message = f"Unknown election type {request.election_type}"
        return refuse(request, call.api_version, ErrorCode.INVALID_REQUEST, message)
    unclean = request.election_type == _UNCLEAN
    results: list[ReplicaElectionResult] = []
    for name, indexes in _requested(request, call):
        outcomes = [_elect(name, index, call, unclean=unclean) for index in indexes]
        if request.topic_partitions is None:
            outcomes = [each for each in outcomes if ErrorCode(each.error_code) is not ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    if not call.core.cluster.note():
        return refuse(request, call.api_version, ErrorCode.KAFKA_STORAGE_ERROR)
    return hold(ElectLeadersResponse(replica_election_results=results), request, call)


def refuse(
    request: ElectLeadersRequest, _version: int, code: ErrorCode, message: str | None = None
) -> ElectLeadersResponse:
    """All elections have failed, for the same reason."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _requested(request: ElectLeadersRequest, call: Call) -> list[tuple[str, Sequence[int]]]:
    """Return the topics of the request with their partitions."""
    if request.topic_partitions is None:
        return [(topic.name, range(len(topic.partitions))) for topic in call.core.topics]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _elect(name: str, index: int, call: Call, *, unclean: bool) -> PartitionResult:
    topic = call.core.topics.get(name)
    if topic is None:
        return _outcome(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partition(index)
    if partition is None:
        return _outcome(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if _has_leader(partition, unclean=unclean):
        return _outcome(index, ErrorCode.ELECTION_NOT_NEEDED)
    if call.core.cluster.elect_leader(partition, unclean=unclean):
        return PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)
    return _outcome(
        index,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    )


def _has_leader(partition: Partition, *, unclean: bool) -> bool:
    leader = NO_NODE if partition.leader is None else partition.leader.id
    return leader != NO_NODE if unclean else leader == partition.replicas[0]


def _outcome(index: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message or code.meaning)
