"""CreatePartitions: a topic grows to a new total of partitions; it never shrinks.

Versions 0-3. New partitions have as many replicas as those that there are, also if a client places them by hand
(INVALID_REPLICA_ASSIGNMENT). They are ready when the answer leaves.
"""

from collections import Counter
from typing import Final

from minibroker.call import Call
from minibroker.metadata.topic_admin import (
    TopicError,
    check_replicas,
    count_mutation,
    disk_refusal,
    refuse_duplicate,
    refuse_too_many,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_FIRST_STRICT: Final = 3
"""As in CreateTopics."""


def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    """Grow each topic by itself."""
    named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    for wanted in request.topics:
        try:
            refuse_duplicate(wanted.name, named)
            _grow(wanted, call, validate_only=request.validate_only)
            results[wanted.name] = CreatePartitionsTopicResult(name=wanted.name, error_code=ErrorCode.NONE)
        except TopicError as error:
            results[wanted.name] = CreatePartitionsTopicResult(
                name=wanted.name, error_code=error.code, error_message=str(error)
            )
    return CreatePartitionsResponse(throttle_time_ms=call.session.muted_ms, results=list(results.values()))


def _grow(wanted: CreatePartitionsTopic, call: Call, *, validate_only: bool) -> None:
    topic = call.state.topics.get(wanted.name)
    if topic is None:
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{wanted.name}' does not exist.")
    current = len(topic.partitions)
    if wanted.count == current:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if wanted.count < current:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {wanted.count} would not be an increase.",
        )
    added = wanted.count - current
    refuse_too_many(added)
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    cluster = call.state.cluster
    if wanted.assignments is None:
        replicas = tuple(cluster.place_more(topic, added))
    else:
        replicas = check_replicas(cluster, [assignment.broker_ids for assignment in wanted.assignments], current)
        if len(replicas[0]) != len(topic.partitions[0].replicas):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes a partition with {len(replicas[0])} replica(s), but this is "
                f"not consistent with previous partitions, which have {len(topic.partitions[0].replicas)} replica(s).",
            )
    if validate_only:
        return
    count_mutation(call, added, _FIRST_STRICT)
    try:
        call.state.topics.add_partitions(topic, wanted.count, replicas)
    except OSError as error:
        raise disk_refusal(error) from error
