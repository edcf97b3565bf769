"""Handlers that describe brokers and topics: Metadata, and DescribeTopicPartitions with its paging."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker.cluster.advice import MISSING_TOPICS, explain_missing_topic, log_topic_creation
from minibroker.cluster.node import NO_NODE
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topic_admin import TopicError, TopicPlan, create_topics, plan_topic, refuse_too_large
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, Target, handles, topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import (
    asked_by_handler,
    authorized_cluster_operations,
    authorized_operations,
    may_create_topic,
)
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import INTERNAL_TOPICS
from minibroker_protocol.messages.metadata import (
    NO_AUTHORIZED_OPERATIONS,
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minibroker_protocol.primitives import ZERO_UUID

_FIRST_WITH_IDS: Final = 12
_MAX_COMPARED_NAMES: Final = 100
"""A request that creates more topics than this gets no warnings about misspelled names."""


def _all_topics(request: MetadataRequest, call: Call) -> tuple[Target, ...]:
    """Return all topics for a request that names none, otherwise nothing."""
    if request.topics or (call.api_version > 0 and request.topics is not None):
        return ()
    return tuple(Target(topic.name) for topic in call.core.topics)


def _refuse_metadata(request: MetadataRequest, _version: int, code: ErrorCode) -> MetadataResponse:
    """Refuse a request with an error for the response and for each topic. Topics named only by id get an empty name."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=[])
        for topic in request.topics or ()
    ]
    return MetadataResponse(error_code=code, brokers=[], topics=topics)


@handles(
    ApiKey.METADATA,
    needs=asked_by_handler(
        "DESCRIBE on each topic, or it is hidden; CREATE on the cluster or the topic, to have it created"
    ),
    names=topics_at("topics.name", implied=_all_topics, answers_partitions=True),
    refusal=Refusal(whole=_refuse_metadata),
)
def metadata(request: MetadataRequest, call: Call) -> MetadataResponse | DelayedResponse:
    """Metadata: return the running brokers, and topics with their partitions.

    Versions 0-13 are served. Since version 12 topics can be requested by id, which takes precedence over the name
    (KIP-516). Versions 10 and 11 have a field for the id but refuse it with INVALID_REQUEST for every topic, as in
    Kafka.

    An unknown topic is created if the client allows it (always before version 4) and `auto.create.topics.enable` is
    set. Unlike in Kafka, the response to that request already has the topic's partitions, which saves clients a
    retry.

    The response to a request for all topics omits topics that the client may not describe. If the request names one of
    them, it gets TOPIC_AUTHORIZATION_FAILED, whether it exists or not. A missing topic that the client may not create
    gets the same error.
    """
    requested = request.topics or []
    joiner = call.session.early_joiner
    if call.api_version < _FIRST_WITH_IDS and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in requested
    ):
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST)
    if not requested and (request.topics is None or call.api_version == 0):
        if joiner is not None:
            joiner.note_metadata(topic.name for topic in call.core.topics)
        described = [_describe(topic, request, call) for topic in call.core.topics if _may_describe(topic.name, call)]
        return _build_response(described, request, call)
    creates = request.allow_auto_topic_creation and call.core.config.boolean("auto.create.topics.enable")
    results: dict[tuple[bytes, str | None], Topic | ErrorCode | str] = {}
    for topic in requested:
        key = topic.topic_id, topic.name
        if key not in results:
            results[key] = _find_topic(topic, request, call, creates=creates)
    missing = [name for name in results.values() if isinstance(name, str)]
    created: Mapping[str, Topic | ErrorCode] = _create(missing, call) if missing else {}
    topics: list[MetadataResponseTopic] = []
    for (topic_id, name), result in results.items():
        topic_or_error = created[result] if isinstance(result, str) else result
        topics.append(
            _describe(topic_or_error, request, call)
            if isinstance(topic_or_error, Topic)
            else _refuse_topic(name, topic_id, topic_or_error, request, call)
        )
    if joiner is not None:
        joiner.note_metadata(topic.name or "" for topic in topics)
    response = _build_response(topics, request, call)
    return hold(response, request, call, lambda: _add_storage_errors(created, response)) if created else response


def _build_response(topics: list[MetadataResponseTopic], request: MetadataRequest, call: Call) -> MetadataResponse:
    cluster = call.core.cluster
    controller = cluster.controller
    return MetadataResponse(
        brokers=_list_brokers(call),
        cluster_id=cluster.cluster_id,
        controller_id=NO_NODE if controller is None else controller.id,
        topics=topics,
        cluster_authorized_operations=authorized_cluster_operations(call)
        if request.include_cluster_authorized_operations
        else NO_AUTHORIZED_OPERATIONS,
    )


def _add_storage_errors(created: Mapping[str, Topic | ErrorCode], response: MetadataResponse) -> MetadataResponse:
    """Report an error for each topic that the request created, because the topics could not be forced to disk."""
    for position, topic in enumerate(response.topics):
        if isinstance(created.get(topic.name or ""), Topic):
            response.topics[position] = _build_error(ErrorCode.KAFKA_STORAGE_ERROR, topic.name, topic.topic_id)
    return response


def _find_topic(
    requested: MetadataRequestTopic, request: MetadataRequest, call: Call, *, creates: bool
) -> Topic | ErrorCode | str:
    """Return a requested topic, an error, or the name of a topic to create."""
    topics = call.core.topics
    by_id = requested.name is None or requested.topic_id != ZERO_UUID
    topic = topics.with_id(requested.topic_id) if by_id else topics.get(requested.name or "")
    if by_id and topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = requested.name or "" if topic is None else topic.name
    if not _may_describe(name, call):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return topic or _check_creation(name, request, call, creates=creates)


def _refuse_topic(
    name: str | None, topic_id: bytes, code: ErrorCode, request: MetadataRequest, call: Call
) -> MetadataResponseTopic:
    if name is None or topic_id != ZERO_UUID:
        return _build_error(code, None, topic_id)
    response = _build_error(code, name)
    if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        response.topic_authorized_operations = _authorized_operations(name, request, call)
    return response


def _check_creation(name: str, request: MetadataRequest, call: Call, *, creates: bool) -> ErrorCode | str:
    """Return the name of an unknown topic if it can be created, or an error."""
    if creates and not may_create_topic(call, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic_name_error(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not creates:
        # Without the broker that holds the logs, a topic may be missing in the last known state only.
        if request.allow_auto_topic_creation and not call.services.is_detached:
            call.core.advice.advise(MISSING_TOPICS, name, explain_missing_topic(name))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return name


def _create(names: Sequence[str], call: Call) -> Mapping[str, Topic | ErrorCode]:
    """Create as many of the topics as possible together, and return each topic or its error."""
    core = call.core
    # With auto-creation, a client that polls until a topic is deleted creates it again. As in Kafka, the response must
    # not contain a topic that the request itself created.
    deleted = {name for name in names if core.topics.was_deleted(name)}
    others = [topic.name for topic in core.topics if not topic.is_internal] if len(names) <= _MAX_COMPARED_NAMES else []
    results: dict[str, Topic | ErrorCode] = {}
    plans: list[TopicPlan] = []
    try:
        refuse_too_large(len(names) * (1 + core.config.integer("num.partitions")))
        for name in names:
            try:
                if name in INTERNAL_TOPICS:
                    results[name] = call.services.create_topic(name)
                else:
                    plans.append(plan_topic(core, name))
            except TopicError as error:
                results[name] = _creation_error(error)
        for topic in create_topics(core, plans):
            results[topic.name] = topic
            if (meant := log_topic_creation(topic.name, others)) is not None:
                call.services.misspelt_topics[topic.name] = meant
    except TopicError as error:
        results.update((name, _creation_error(error)) for name in names if name not in results)
    results.update(
        (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in deleted if not isinstance(results[name], ErrorCode)
    )
    return results


def _creation_error(error: TopicError) -> ErrorCode:
    """Return the error for a topic that cannot be created.

    Kafka's broker does not wait for the controller, whose refusals become UNKNOWN_TOPIC_OR_PARTITION.
    """
    is_of_controller = error.code in {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION}
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_of_controller else error.code


def _may_describe(name: str, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _describe(topic: Topic, request: MetadataRequest, call: Call) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_adapt_to_version(topic.describe(call.core.cluster), call),
        topic_authorized_operations=_authorized_operations(topic.name, request, call),
    )


def _authorized_operations(name: str, request: MetadataRequest, call: Call) -> int:
    """Return the client's authorized operations on a topic if the request asks for them. The topic need not exist."""
    if not request.include_topic_authorized_operations:
        return NO_AUTHORIZED_OPERATIONS
    return authorized_operations(call, ResourceType.TOPIC, name)


def _list_brokers(call: Call) -> list[MetadataResponseBroker]:
    """Return the running brokers, with the addresses that this client can reach."""
    brokers: list[MetadataResponseBroker] = []
    for node in call.core.cluster.up:
        host, port = call.address_of(node)
        brokers.append(MetadataResponseBroker(node_id=node.id, host=host, port=port, rack=node.rack))
    return brokers


def _adapt_to_version(partitions: list[MetadataResponsePartition], call: Call) -> list[MetadataResponsePartition]:
    """Adapt partitions to the request's version. Version 0 omits stopped replicas and reports an error instead."""
    if call.api_version > 0 or all(not partition.offline_replicas for partition in partitions):
        return partitions
    nodes = call.core.cluster.nodes
    reported: list[MetadataResponsePartition] = []
    for partition in partitions:
        replicas = [node_id for node_id in partition.replica_nodes if nodes[node_id].is_up]
        code = ErrorCode.REPLICA_NOT_AVAILABLE if len(replicas) < len(partition.replica_nodes) else ErrorCode.NONE
        reported.append(
            MetadataResponsePartition(
                error_code=partition.error_code or code,
                partition_index=partition.partition_index,
                leader_id=partition.leader_id,
                replica_nodes=replicas,
                isr_nodes=[node_id for node_id in partition.isr_nodes if nodes[node_id].is_up],
            )
        )
    return reported


def _build_error(code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def _refused_topic(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=[])


@handles(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    needs=asked_by_handler("DESCRIBE on each topic, or it is hidden"),
    names=topics_at("topics.name"),
)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, call: Call
) -> Steps[DescribeTopicPartitionsResponse]:
    """DescribeTopicPartitions: return the partitions of topics in pages (KIP-966).

    Version 0 is served. Topics are sorted by name. Without topics the request selects all topics that the client
    may describe. A page has at most the requested number of partitions, and at most `max.request.partition.size.limit`.
    The request's cursor names the first partition of the page, and the response's cursor names the first partition
    of the next page. A partition without a leader is not an error. The lists of eligible leader replicas are empty:
    replicas share one log, so every running replica is in sync.

    A cursor whose partition is negative, or whose topic is not requested, gets INVALID_REQUEST.
    """
    cursor = request.cursor
    names = _names_from_cursor(request, call)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST)
    limit = min(call.core.config.integer("max.request.partition.size.limit"), request.response_partition_limit)
    remaining = max(limit, 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        yield
        if not _may_describe(name, call):
            continue
        if remaining <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = call.core.topics.get(name)
        if topic is None:
            response.topics.append(_describe_missing(name, call))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), first + remaining)
        response.topics.append(_topic_page(topic, first, end, call))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        remaining -= max(end - first, 0)
    response.topics += [
        _refused_topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in names if not _may_describe(name, call)
    ]
    return response


def _names_from_cursor(request: DescribeTopicPartitionsRequest, call: Call) -> list[str]:
    """Return the topic names of this and later pages in order, starting with the cursor's."""
    first = "" if request.cursor is None else request.cursor.topic_name
    if request.topics:
        candidates = {topic.name for topic in request.topics}
    else:
        candidates = {topic.name for topic in call.core.topics if _may_describe(topic.name, call)}
    return sorted(name for name in candidates if name >= first)


def _topic_page(topic: Topic, first: int, end: int, call: Call) -> DescribeTopicPartitionsResponseTopic:
    nodes = call.core.cluster.nodes
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE,
                partition_index=partition.index,
                leader_id=NO_NODE if partition.leader is None else partition.leader.id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[node_id for node_id in partition.replicas if not nodes[node_id].is_up],
            )
            for partition in topic.partitions[first:end]
        ],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, topic.name),
    )


def _describe_missing(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = _refused_topic(name, code)
    topic.is_internal = name in INTERNAL_TOPICS
    topic.topic_authorized_operations = authorized_operations(call, ResourceType.TOPIC, name)
    return topic
