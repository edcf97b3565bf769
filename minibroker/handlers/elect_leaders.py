"""ElectLeaders: have partitions led by their preferred replica, or by any that is alive (KIP-183, KIP-460).

Versions 0-2; version 0 knows preferred replicas only. As in Kafka's `ReplicationControlManager`: ELECTION_NOT_NEEDED
for a partition that the preferred replica leads, or, where a leader at any price is wanted (type 1), that has one;
PREFERRED_LEADER_NOT_AVAILABLE if the preferred replica is not in sync, ELIGIBLE_LEADERS_NOT_AVAILABLE if none is
alive. Asked for all partitions, the response has those that needed an election. INVALID_REQUEST for another type.
"""

from collections.abc import Iterator
from typing import Final

from minibroker.cluster.node import NO_NODE
from minibroker.cluster.partition import Partition
from minibroker.requests.call import Call
from minibroker.requests.declarations import topics_at
from minibroker.requests.held_for_metadata import hold
from minibroker.requests.requirements import on_cluster
from minibroker.routing.delayed import DelayedResponse
from minibroker.security.authorization.acls import Operation
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED: Final = 0
_UNCLEAN: Final = 1

NAMES: Final = topics_at("topic_partitions.topic", "partitions")
NEEDS: Final = on_cluster(Operation.ALTER)
IN_ORDER: Final = True
DEADLINE: Final = "topic_partitions"


def handle(request: ElectLeadersRequest, call: Call) -> Steps[ElectLeadersResponse | DelayedResponse]:
    """Elect a leader for each partition."""
    if request.election_type not in {_PREFERRED, _UNCLEAN}:
        message = f"Unknown election type {request.election_type}"
        return refuse(request, call.api_version, ErrorCode.INVALID_REQUEST, message)
    unclean = request.election_type == _UNCLEAN
    results: list[ReplicaElectionResult] = []
    try:
        for name, index in _requested(request, call):
            if index is None:
                results.append(ReplicaElectionResult(topic=name, partition_result=[]))
                continue
            outcome = _elect(name, index, call, unclean=unclean)
            if (
                request.topic_partitions is not None
                or ErrorCode(outcome.error_code) is not ErrorCode.ELECTION_NOT_NEEDED
            ):
                results[-1].partition_result.append(outcome)
            yield
    finally:
        is_noted = call.core.cluster.note()
    if not is_noted:
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


def _requested(request: ElectLeadersRequest, call: Call) -> Iterator[tuple[str, int | None]]:
    """The partitions of the request, after a None for their topic, which is returned even if nothing had to be done."""
    if request.topic_partitions is None:
        for known in tuple(call.core.topics):
            yield known.name, None
            yield from ((known.name, each.index) for each in known.partitions)
    else:
        for topic in request.topic_partitions:
            yield topic.topic, None
            yield from ((topic.topic, index) for index in topic.partitions)


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
