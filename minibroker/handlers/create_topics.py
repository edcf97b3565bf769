"""CreateTopics: new topics, each with its own outcome.

Versions 0-7: validate_only from 1, quotas' throttling never, the resulting configuration (KIP-525) from 5, topic ids
from 7. A topic is ready to be produced to when the answer leaves, so the timeout is not looked at. Placing replicas
by hand is checked for its form and taken as a number of partitions, since all of them live here; any replication
factor is accepted for the same reason and reported as 1.
"""

from collections import Counter
from typing import Final

from minibroker.call import Call
from minibroker.topic_admin import (
    DEFAULT,
    TopicError,
    TopicPlan,
    create_topics,
    plan_topic,
    refuse_duplicate,
    refuse_empty_replicas,
)
from minibroker.topics import Topic
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minibroker_protocol.primitives import ZERO_UUID

_REPLICAS: Final = 1


def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """Check every topic by itself, then create those that passed together."""
    named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult] = {}
    plans: list[TopicPlan] = []
    for wanted in request.topics:
        try:
            refuse_duplicate(wanted.name, named)
            plan = _plan(wanted, call)
        except TopicError as error:
            results[wanted.name] = _refusal(wanted.name, error)
        else:
            plans.append(plan)
            results[wanted.name] = _success(plan, None)
    if not request.validate_only and plans:
        try:
            created = create_topics(call.state, plans)
        except TopicError as error:
            results.update((plan.name, _refusal(plan.name, error)) for plan in plans)
        else:
            results.update((plan.name, _success(plan, topic)) for plan, topic in zip(plans, created, strict=True))
    return CreateTopicsResponse(topics=list(results.values()))


def _plan(wanted: CreatableTopic, call: Call) -> TopicPlan:
    partitions, replication_factor = wanted.num_partitions, wanted.replication_factor
    if wanted.assignments:
        if partitions != DEFAULT or replication_factor != DEFAULT:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                "Replicas are assigned by hand, so numPartitions and replicationFactor must be -1.",
            )
        refuse_empty_replicas(assignment.broker_ids for assignment in wanted.assignments)
        partitions = len(wanted.assignments)
        if {a.partition_index for a in wanted.assignments} != set(range(partitions)):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
    return plan_topic(
        call.state,
        wanted.name,
        partitions,
        replication_factor,
        {config.name: config.value for config in wanted.configs},
    )


def _refusal(name: str, error: TopicError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error), configs=[])


def _success(plan: TopicPlan, topic: Topic | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=plan.name,
        topic_id=topic.id if topic else ZERO_UUID,
        error_code=ErrorCode.NONE,
        num_partitions=plan.partitions,
        replication_factor=_REPLICAS,
        configs=[
            CreatableTopicConfigs(
                name=entry.name, value=entry.value, read_only=False, config_source=entry.source, is_sensitive=False
            )
            for entry in plan.config.entries()
        ],
    )
