"""Handlers that create and delete topics, and add partitions to them."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from minibroker.cluster.directories import purge_and_log_errors
from minibroker.cluster.partition import Replicas
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.topic_admin import (
    DEFAULT,
    TopicError,
    TopicPlan,
    assignment_error,
    check_new_name,
    check_replicas,
    disk_refusal,
    plan_topic,
    refuse_duplicate,
    refuse_empty_replicas,
    refuse_too_large,
    refuse_too_many,
)
from minibroker.cluster.topic_admin import create_topics as create_planned
from minibroker.cluster.topics import Topic
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles, topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler, may_create_topic, on_each
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minibroker_protocol.primitives import ZERO_UUID, new_uuid


def _count_mutation(call: Call, partitions: int, first_strict: int) -> None:
    """Count created or deleted partitions against the client's quota (KIP-599).

    A client over its quota is muted.

    Raises:
        TopicError: The client is over its quota, and its version is at least `first_strict`.
    """
    quotas = call.services.quotas
    if quotas is None:
        return
    strict = call.api_version >= first_strict
    wait_ms = quotas.charge_mutation(call.session, call.client_id, partitions, strict=strict)
    call.session.muted_ms = max(call.session.muted_ms, wait_ms)
    if strict and wait_ms:
        code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        raise TopicError(code, code.meaning)


_FIRST_STRICT_CREATION: Final = 6
"""The first version with THROTTLING_QUOTA_EXCEEDED for clients over their quota. Earlier versions are only delayed."""


@handles(
    ApiKey.CREATE_TOPICS,
    needs=asked_by_handler(
        "CREATE on the cluster or on each topic; DESCRIBE_CONFIGS on each topic, to get its configuration"
    ),
    names=topics_at("topics.name"),
    refusal=Refusal({"configs": []}),
    deadline="timeout_ms",
)
def create_topics(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse | DelayedResponse:
    """CreateTopics: create topics, with a result for each.

    Versions 0-7 are served: validate_only since version 1, the resulting configuration since 5 (KIP-525), topic ids
    since 7. A topic accepts records before the response is sent, so the timeout is ignored.

    A single broker accepts any replication factor and replica assignment, and reports a factor of 1. With several
    brokers, or with `minibroker.replication.factor.strict`, INVALID_REPLICATION_FACTOR and
    INVALID_REPLICA_ASSIGNMENT are as in Kafka. All topics get POLICY_VIOLATION if a request has more than 10,000
    topics or partitions, or would write more than 10,000 records to Kafka's metadata log.
    """
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult | None] = {}
    plans: list[TopicPlan] = []
    partitions = sum(_count_partitions(requested, call) for requested in request.topics if counts[requested.name] == 1)
    refuse_too_many(max(len(counts), partitions))
    for requested in request.topics:
        try:
            refuse_duplicate(requested.name, counts)
            plan = _plan_creation(requested, call)
            if not request.validate_only:
                _count_mutation(call, plan.partitions, _FIRST_STRICT_CREATION)
        except TopicError as error:
            results[requested.name] = _refuse_creation(requested.name, error)
        else:
            plans.append(plan)
            results[requested.name] = None  # The entry reserves the topic's position in the response.
    refuse_too_large(sum(1 + plan.partitions + len(plan.config.overrides) for plan in plans))
    created: list[Topic] | list[None] = [None] * len(plans)
    try:
        if not request.validate_only and plans:
            created = create_planned(call.core, plans)
    except TopicError as error:
        results.update((plan.name, _refuse_creation(plan.name, error)) for plan in plans)
    else:
        # Topics with equal overrides share one list of configurations.
        configs: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}
        for plan, topic in zip(plans, created, strict=True):
            overrides = tuple(plan.config.overrides.items())
            if overrides not in configs:
                configs[overrides] = _list_configs(plan)
            results[plan.name] = _creation_result(plan, topic, configs[overrides], call)
    topics = [result for result in results.values() if result is not None]
    return hold(CreateTopicsResponse(topics=topics), request, call)


def _count_partitions(requested: CreatableTopic, call: Call) -> int:
    """Return the number of requested partitions, or 0 if it is negative."""
    if requested.assignments:
        return len(requested.assignments)
    if requested.num_partitions == DEFAULT:
        return call.core.config.integer("num.partitions")
    return max(0, requested.num_partitions)


def _plan_creation(requested: CreatableTopic, call: Call) -> TopicPlan:
    if not may_create_topic(call, requested.name):
        raise TopicError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
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
            raise assignment_error("partitions should be a consecutive 0-based integer sequence")
        replicas = check_replicas(call.core, [by_hand[index] for index in range(partitions)])
    return plan_topic(
        call.core,
        requested.name,
        partitions,
        replication_factor,
        {config.name: config.value for config in requested.configs},
        replicas,
    )


def _refuse_creation(name: str, error: TopicError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error), configs=[])


def _list_configs(plan: TopicPlan) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name, value=entry.value, read_only=False, config_source=entry.source, is_sensitive=False
        )
        for entry in plan.config.entries()
    ]


def _creation_result(
    plan: TopicPlan, topic: Topic | None, configs: list[CreatableTopicConfigs], call: Call
) -> CreatableTopicResult:
    # A topic that is only validated gets a new id that stays unused.
    topic_id = topic.id if topic else new_uuid()
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


_FIRST_STRICT_DELETION: Final = 5
"""Like `_FIRST_STRICT_CREATION`, for DeleteTopics."""
_FIRST_WITH_DISABLED_ERROR: Final = 3
_Deleted = tuple[Topic, list[str]]
_NameCounts = Counter[tuple[str | None, bytes]]
"""How often a request has each pair of name and id."""


@handles(
    ApiKey.DELETE_TOPICS,
    needs=asked_by_handler("DELETE on the cluster or on each topic; DESCRIBE on each topic, to get its name"),
    names=topics_at("topics.name") | topics_at("topic_names"),
    deadline="timeout_ms",
)
def delete_topics(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse | DelayedResponse:
    """DeleteTopics: delete topics immediately, and their files in the background.

    Versions 0-6 are served: by name, or since version 6 by id (KIP-516). Offsets that groups have committed for a
    topic are deleted with it.

    Error codes:

    - INVALID_REQUEST: the topic is named twice, by name or id. It is not deleted.
    - POLICY_VIOLATION: for all topics if the request has more than 10,000.
    - TOPIC_DELETION_DISABLED: `delete.topic.enable` is false. Before version 3 the error is INVALID_REQUEST.
    """
    states = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    if not call.core.config.boolean("delete.topic.enable"):
        is_known = call.api_version >= _FIRST_WITH_DISABLED_ERROR
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise RefusedRequestError(code, "Topic deletion is disabled.")
    refuse_too_large(len(states))
    counts = Counter((topic.name, topic.topic_id) for topic in states)
    results: list[DeletableTopicResult] = []
    deleted: list[_Deleted] = []
    for name, topic_id in counts:
        results += _delete(DeleteTopicState(name=name, topic_id=topic_id), call, counts, deleted)
    if deleted:
        directories = call.core.topics.save_deletions(deleted)
        call.core.background(partial(purge_and_log_errors, directories))
        call.core.hooks.topics_deleted([topic.name for topic, _ in deleted])
    return hold(DeleteTopicsResponse(responses=results), request, call)


def _delete(
    state: DeleteTopicState, call: Call, counts: _NameCounts, deleted: list[_Deleted]
) -> list[DeletableTopicResult]:
    """Delete a topic and append it to `deleted`. As in Kafka, a topic that is named twice is refused.

    If a request has both a topic's name and its id, only the name gets a result.
    """
    message = _naming_error(state, counts)
    if message is not None:
        return [_refuse_deletion(state, ErrorCode.INVALID_REQUEST, message)]
    topics = call.core.topics
    topic = topics.get(state.name) if state.name is not None else topics.with_id(state.topic_id)
    refusal = _authorization_refusal(state, topic, call)
    if refusal is not None:
        return [refusal]
    if topic is None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if state.name is not None else ErrorCode.UNKNOWN_TOPIC_ID
        return [_refuse_deletion(state, missing, missing.meaning)]
    if state.name is None and counts[topic.name, ZERO_UUID] == 1:
        return []
    if state.name is not None and counts[None, topic.id]:
        full_state = DeleteTopicState(name=state.name, topic_id=topic.id)
        reason = "The provided topic name maps to an ID that was already supplied."
        return [_refuse_deletion(full_state, ErrorCode.INVALID_REQUEST, reason)]
    return [_remove(topic, state, call, deleted)]


def _naming_error(state: DeleteTopicState, counts: _NameCounts) -> str | None:
    """Return an error for an invalid way to name a topic, or None."""
    if state.name is not None and state.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    if state.name is None and state.topic_id == ZERO_UUID:
        return "Neither topic name nor id were specified."
    if counts[state.name, state.topic_id] > 1:
        return f"Duplicate topic {'id' if state.name is None else 'name'}."
    return None


def _authorization_refusal(state: DeleteTopicState, topic: Topic | None, call: Call) -> DeletableTopicResult | None:
    """Return the refusal of an unauthorized deletion, with the topic's name only if the client may describe it."""
    name = state.name if topic is None else topic.name
    if name is None or call.allows(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    may_describe = call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if may_describe and (topic is None or call.allows(Operation.DELETE, ResourceType.TOPIC, name)):
        return None
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    visible_state = DeleteTopicState(name=name, topic_id=state.topic_id) if may_describe else state
    return _refuse_deletion(visible_state, code, code.meaning)


def _remove(topic: Topic, state: DeleteTopicState, call: Call, deleted: list[_Deleted]) -> DeletableTopicResult:
    try:
        _count_mutation(call, len(topic.partitions), _FIRST_STRICT_DELETION)
        deleted.append((topic, call.core.topics.rename_directories(topic)))
    except TopicError as error:
        return _refuse_deletion(state, error.code, str(error))
    except OSError as error:
        refusal = disk_refusal(error)
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.id, error_code=refusal.code, error_message=str(refusal)
        )
    call.core.topics.remember_deleted(topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)


def _refuse_deletion(state: DeleteTopicState, code: ErrorCode, reason: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_code=code, error_message=reason)


_FIRST_STRICT_GROWTH: Final = 3
"""Like `_FIRST_STRICT_CREATION`, for CreatePartitions."""
_Growth = tuple[Topic, int, Sequence[Replicas]]


@handles(
    ApiKey.CREATE_PARTITIONS,
    needs=on_each(Operation.ALTER, ResourceType.TOPIC),
    names=topics_at("topics.name"),
    deadline="timeout_ms",
)
def create_partitions(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse | DelayedResponse:
    """CreatePartitions: raise the number of a topic's partitions. It can never be lowered.

    Versions 0-3 are served. A new partition has as many replicas as the existing ones. This also holds if the
    client assigns the replicas (INVALID_REPLICA_ASSIGNMENT). New partitions are ready before the response is sent.
    All topics get POLICY_VIOLATION if a request has more than 10,000 topics, or adds more than 10,000 partitions.
    """
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    added = sum(_count_added_partitions(topic, call) for topic in request.topics if counts[topic.name] == 1)
    try:
        refuse_too_large(max(len(counts), added))
    except TopicError as error:
        return CreatePartitionsResponse(results=[_refuse_growth(topic.name, error) for topic in request.topics])
    growths: list[_Growth] = []
    for requested in request.topics:
        try:
            refuse_duplicate(requested.name, counts)
            growth = _plan_growth(requested, call)
            if not request.validate_only:
                _count_mutation(call, growth[1] - len(growth[0].partitions), _FIRST_STRICT_GROWTH)
                growths.append(growth)
            results[requested.name] = CreatePartitionsTopicResult(name=requested.name, error_code=ErrorCode.NONE)
        except TopicError as error:
            results[requested.name] = _refuse_growth(requested.name, error)
    try:
        call.core.topics.grow(growths)
    except OSError as error:
        results.update((topic.name, _refuse_growth(topic.name, disk_refusal(error))) for topic, _, _ in growths)
    return hold(CreatePartitionsResponse(results=list(results.values())), request, call)


def _count_added_partitions(requested: CreatePartitionsTopic, call: Call) -> int:
    """Return the number of partitions that a request adds to a topic, or 0 if the request is invalid."""
    topic = call.core.topics.get(requested.name)
    added = 0 if topic is None else max(0, requested.count - len(topic.partitions))
    return added if requested.assignments is None or len(requested.assignments) == added else 0


def _refuse_growth(name: str, error: TopicError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))


def _plan_growth(requested: CreatePartitionsTopic, call: Call) -> _Growth:
    """Return a topic, its new number of partitions, and the replicas of the added partitions.

    Raises:
        TopicError: The topic cannot grow that way.
    """
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
        raise assignment_error(
            f"Attempted to add {added} additional partition(s), but only {len(requested.assignments)} assignment(s) "
            "were specified."
        )
    if requested.assignments is None:
        replicas = tuple(call.core.cluster.assign_more_replicas(topic, added))
    else:
        replicas = check_replicas(call.core, [assignment.broker_ids for assignment in requested.assignments], current)
        if len(replicas[0]) != len(topic.partitions[0].replicas):
            raise assignment_error(
                f"The manual partition assignment includes a partition with {len(replicas[0])} replica(s), but this is "
                f"not consistent with previous partitions, which have {len(topic.partitions[0].replicas)} replica(s)."
            )
    return topic, requested.count, replicas
