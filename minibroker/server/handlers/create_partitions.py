"""CreatePartitions: a topic grows to a new total of partitions; it never shrinks.

Versions 0-3. POLICY_VIOLATION for all topics when a request has more than 10,000 topics, or adds more partitions. New
partitions have as many replicas as those that exist, also if a client places them by hand (INVALID_REPLICA_ASSIGNMENT).
They are ready when the answer leaves.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from minibroker.cluster.replicas import Replicas
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.topic_admin import (
    TopicError,
    check_replicas,
    disk_refusal,
    refuse_duplicate,
    refuse_too_large,
)
from minibroker.cluster.topics import Topic
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.quota_mutations import count_mutation
from minibroker.server.requests.requirements import on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_FIRST_STRICT: Final = 3
"""As in CreateTopics."""
_Growth = tuple[Topic, int, Sequence[Replicas]]

NAMES: Final = topics_at("topics.name")
NEEDS: Final = on_each(Operation.ALTER, ResourceType.TOPIC)
DEADLINE: Final = "timeout_ms"


def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse | DelayedResponse:
    """Check every topic by itself, then grow those that passed together."""
    named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    try:
        refuse_too_large(max(len(named), sum(_added(each, call) for each in request.topics if named[each.name] == 1)))
    except TopicError as error:
        refused = [_refusal(topic.name, error) for topic in request.topics]
        return CreatePartitionsResponse(throttle_time_ms=call.session.muted_ms, results=refused)
    growths: list[_Growth] = []
    for requested in request.topics:
        try:
            refuse_duplicate(requested.name, named)
            growth = _plan(requested, call)
            if not request.validate_only:
                count_mutation(call, growth[1] - len(growth[0].partitions), _FIRST_STRICT)
                growths.append(growth)
            results[requested.name] = CreatePartitionsTopicResult(name=requested.name, error_code=ErrorCode.NONE)
        except TopicError as error:
            results[requested.name] = _refusal(requested.name, error)
    try:
        call.core.topics.grow(growths)
    except OSError as error:
        results.update((topic.name, _refusal(topic.name, disk_refusal(error))) for topic, _, _ in growths)
    return hold(
        CreatePartitionsResponse(throttle_time_ms=call.session.muted_ms, results=list(results.values())), request, call
    )


def _added(requested: CreatePartitionsTopic, call: Call) -> int:
    """The number of partitions that a topic would get, if nothing else is wrong."""
    topic = call.core.topics.get(requested.name)
    added = 0 if topic is None else max(0, requested.count - len(topic.partitions))
    return added if requested.assignments is None or len(requested.assignments) == added else 0


def _refusal(name: str, error: TopicError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))


def _plan(requested: CreatePartitionsTopic, call: Call) -> _Growth:
    """The topic, its new number of partitions, and the replicas of those that are added. TopicError."""
    topic = call.core.topics.get(requested.name)
    if topic is None:
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.meaning)
    current = len(topic.partitions)
    if requested.count == current:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if requested.count < current:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {requested.count} would not be an increase.",
        )
    added = requested.count - current
    if requested.assignments is not None and len(requested.assignments) != added:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(requested.assignments)} assignment(s) "
            "were specified.",
        )
    if requested.assignments is None:
        replicas = tuple(call.core.cluster.assign_more_replicas(topic, added))
    else:
        replicas = check_replicas(call.core, [assignment.broker_ids for assignment in requested.assignments], current)
        if len(replicas[0]) != len(topic.partitions[0].replicas):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes a partition with {len(replicas[0])} replica(s), but this is "
                f"not consistent with previous partitions, which have {len(topic.partitions[0].replicas)} replica(s).",
            )
    return topic, requested.count, replicas
