"""CreateTopics: new topics, each with its own outcome.

Versions 0-7: validate_only from 1, the resulting configuration (KIP-525) from 5, topic ids
from 7. A topic is ready to be produced to when the answer leaves, so the timeout is not looked at. A broker that is
alone accepts any replication factor, and replicas placed by hand wherever, and reports a factor of 1, unless
`minibroker.replication.factor.strict` is set. Then, and where there are several, INVALID_REPLICATION_FACTOR and
INVALID_REPLICA_ASSIGNMENT are as in Kafka. POLICY_VIOLATION for all topics when a request asks for more than 10,000
topics or partitions, or would make more than 10,000 records in Kafka's metadata log.
"""

from collections import Counter
from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.topic_admin import (
    DEFAULT,
    TopicError,
    TopicPlan,
    check_new_name,
    check_replicas,
    create_topics,
    plan_topic,
    refuse_duplicate,
    refuse_empty_replicas,
    refuse_too_large,
    refuse_too_many,
)
from minibroker.cluster.topics import Topic
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.quota_mutations import count_mutation
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minibroker_protocol.uuids import new_uuid

_FIRST_STRICT: Final = 6
"""From here on a client that is over its quota is refused, THROTTLING_QUOTA_EXCEEDED; before it has to wait."""

NAMES: Final = topics_at("topics.name")
NEEDS: Final = asked_by_handler(
    "CREATE on the cluster or on each topic; DESCRIBE_CONFIGS on each topic, to get its configuration"
)
DEADLINE: Final = "timeout_ms"
REFUSAL: Final = Refusal({"configs": []})


def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse | DelayedResponse:
    """Check every topic by itself, then create those that passed together."""
    named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult | None] = {}
    plans: list[TopicPlan] = []
    try:
        refuse_too_many(
            max(len(named), sum(_partitions(each, call) for each in request.topics if named[each.name] == 1))
        )
    except TopicError as error:
        return _refuse_all(request, error, call)
    for requested in request.topics:
        try:
            refuse_duplicate(requested.name, named)
            _check_rights(requested.name, call)
            plan = _plan(requested, call)
            if not request.validate_only:
                count_mutation(call, plan.partitions, _FIRST_STRICT)
        except TopicError as error:
            results[requested.name] = _refusal(requested.name, error)
        else:
            plans.append(plan)
            results[requested.name] = None  # keeps its place
    made: list[Topic] | list[None] = [None] * len(plans)
    try:
        refuse_too_large(sum(1 + plan.partitions + len(plan.config.overrides) for plan in plans))
        if not request.validate_only and plans:
            made = create_topics(call.core, plans)
    except TopicError as error:
        if error.code is ErrorCode.POLICY_VIOLATION:
            return _refuse_all(request, error, call)
        results.update((plan.name, _refusal(plan.name, error)) for plan in plans)
    else:
        configs: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}  # by their overrides
        for plan, topic in zip(plans, made, strict=True):
            overrides = tuple(plan.config.overrides.items())
            if overrides not in configs:
                configs[overrides] = _configs(plan)
            results[plan.name] = _success(plan, topic, configs[overrides], call)
    return hold(
        CreateTopicsResponse(
            throttle_time_ms=call.session.muted_ms, topics=[result for result in results.values() if result is not None]
        ),
        request,
        call,
    )


def _partitions(requested: CreatableTopic, call: Call) -> int:
    """The number of requested partitions; 0 for a negative one."""
    if requested.assignments:
        return len(requested.assignments)
    if requested.num_partitions == DEFAULT:
        return call.core.config.integer("num.partitions")
    return max(0, requested.num_partitions)


def _refuse_all(request: CreateTopicsRequest, error: TopicError, call: Call) -> CreateTopicsResponse:
    topics = [_refusal(each.name, error) for each in request.topics]
    return CreateTopicsResponse(throttle_time_ms=call.session.muted_ms, topics=topics)


def _check_rights(name: str, call: Call) -> None:
    if not (
        call.allows(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        or call.allows(Operation.CREATE, ResourceType.TOPIC, name)
    ):
        raise TopicError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _plan(requested: CreatableTopic, call: Call) -> TopicPlan:
    partitions, replication_factor = requested.num_partitions, requested.replication_factor
    replicas = None
    if requested.assignments:
        check_new_name(call.core, requested.name)
        for number, field in ((replication_factor, "replication factor"), (partitions, "numPartitions")):
            if number != DEFAULT:
                raise TopicError(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {field} was not set to -1.",
                )
        by_hand = {assignment.partition_index: assignment.broker_ids for assignment in requested.assignments}
        refuse_empty_replicas(assignment.broker_ids for assignment in requested.assignments)
        partitions = len(requested.assignments)
        if by_hand.keys() != set(range(partitions)):
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        replicas = check_replicas(call.core, [by_hand[index] for index in range(partitions)])
    return plan_topic(
        call.core,
        requested.name,
        partitions,
        replication_factor,
        {config.name: config.value for config in requested.configs},
        replicas,
    )


def _refusal(name: str, error: TopicError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error), configs=[])


def _configs(plan: TopicPlan) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name, value=entry.value, read_only=False, config_source=entry.source, is_sensitive=False
        )
        for entry in plan.config.entries()
    ]


def _success(
    plan: TopicPlan, topic: Topic | None, configs: list[CreatableTopicConfigs], call: Call
) -> CreatableTopicResult:
    topic_id = topic.id if topic else new_uuid()  # unused, if the topic was not to be made
    if not call.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, plan.name):
        return CreatableTopicResult(
            name=plan.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    return CreatableTopicResult(
        name=plan.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=plan.partitions,
        replication_factor=plan.replication_factor,
        configs=configs,
    )
