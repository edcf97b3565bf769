"""The brokers and topics of the cluster: Metadata, and DescribeTopicPartitions page by page."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker.cluster.advice import MISSING_TOPICS, about_missing, tell_creation
from minibroker.cluster.node import NO_NODE
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topic_admin import TopicError, TopicPlan, create_topics, plan_topic, refuse_too_large
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, Target, handles, topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import (
    asked_by_handler,
    authorized_cluster_operations,
    authorized_operations,
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
_MAX_ADVISED: Final = 100
"""Where a request creates more topics, their names are not compared with those of other topics."""


def _all_topics(request: MetadataRequest, call: Call) -> tuple[Target, ...]:
    """A request without topics is about all of them."""
    if request.topics or (call.api_version > 0 and request.topics is not None):
        return ()
    return tuple(Target(topic.name) for topic in call.core.topics)


def _refuse_metadata(request: MetadataRequest, _version: int, code: ErrorCode) -> MetadataResponse:
    """The error stands at the top and at each topic; a topic that is named by its id alone has an empty name."""
    topics = [
        MetadataResponseTopic(error_code=code, name=each.name or "", topic_id=each.topic_id, partitions=[])
        for each in request.topics or ()
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
    """Metadata: the brokers that are up, and the topics with their partitions.

    Versions 0-13. Topics are asked by name, or by id from version 12 on (KIP-516), where an id counts more than a
    name; versions 10 and 11 have a place for the id but refuse it (INVALID_REQUEST for every topic, as Kafka). A
    topic that does not exist is created when the client allows it (always, before version 4) and
    `auto.create.topics.enable` says so; unlike Kafka, the answer to that very request has its partitions already,
    so that no client waits for its second try. What a client may not describe is left out of all topics, and
    TOPIC_AUTHORIZATION_FAILED where it is asked for, whether it exists or not; so is what would have to be created,
    unless the client may create it.
    """
    requested = request.topics or []
    joiner = call.session.early_joiner
    if call.api_version < _FIRST_WITH_IDS and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in requested
    ):
        refused = [_error(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in requested]
        return MetadataResponse(brokers=[], topics=refused)
    if not requested and (request.topics is None or call.api_version == 0):
        if joiner is not None:
            joiner.note_metadata(topic.name for topic in call.core.topics)
        described = [_describe(topic, request, call) for topic in call.core.topics if _may_describe(topic.name, call)]
        return _response(described, request, call)
    creates = request.allow_auto_topic_creation and call.core.config.boolean("auto.create.topics.enable")
    named: dict[tuple[bytes, str | None], Topic | ErrorCode | str] = {}
    for topic in requested:
        key = topic.topic_id, topic.name
        if key not in named:
            named[key] = _find(topic, request, call, creates=creates)
    missing = [name for name in named.values() if isinstance(name, str)]
    made: Mapping[str, Topic | ErrorCode] = _create(missing, call) if missing else {}
    topics: list[MetadataResponseTopic] = []
    for (topic_id, name), known in named.items():
        found = made[known] if isinstance(known, str) else known
        topics.append(
            _describe(found, request, call)
            if isinstance(found, Topic)
            else _refused(name, topic_id, found, request, call)
        )
    if joiner is not None:
        joiner.note_metadata(topic.name or "" for topic in topics)
    response = _response(topics, request, call)
    return hold(response, request, call, lambda: _without(made, response)) if made else response


def _response(topics: list[MetadataResponseTopic], request: MetadataRequest, call: Call) -> MetadataResponse:
    cluster = call.core.cluster
    controller = cluster.controller
    return MetadataResponse(
        brokers=_brokers(call),
        cluster_id=cluster.cluster_id,
        controller_id=NO_NODE if controller is None else controller.id,
        topics=topics,
        cluster_authorized_operations=authorized_cluster_operations(call)
        if request.include_cluster_authorized_operations
        else NO_AUTHORIZED_OPERATIONS,
    )


def _without(made: Mapping[str, Topic | ErrorCode], response: MetadataResponse) -> MetadataResponse:
    """The response with errors for the topics that it has made: the disk has refused them."""
    for number, topic in enumerate(response.topics):
        if isinstance(made.get(topic.name or ""), Topic):
            response.topics[number] = _error(ErrorCode.KAFKA_STORAGE_ERROR, topic.name, topic.topic_id)
    return response


def _find(
    requested: MetadataRequestTopic, request: MetadataRequest, call: Call, *, creates: bool
) -> Topic | ErrorCode | str:
    """The topic that is asked for, the error, or the name of the topic that has to be made."""
    topics = call.core.topics
    by_id = requested.name is None or requested.topic_id != ZERO_UUID
    known = topics.with_id(requested.topic_id) if by_id else topics.get(requested.name or "")
    if by_id and known is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = requested.name or "" if known is None else known.name
    if not _may_describe(name, call):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return known or _creatable(name, request, call, creates=creates)


def _refused(
    name: str | None, topic_id: bytes, code: ErrorCode, request: MetadataRequest, call: Call
) -> MetadataResponseTopic:
    if name is None or topic_id != ZERO_UUID:
        return _error(code, None, topic_id)
    response = _error(code, name)
    if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        response.topic_authorized_operations = _operations(name, request, call)
    return response


def _creatable(name: str, request: MetadataRequest, call: Call, *, creates: bool) -> ErrorCode | str:
    """The name of a topic that does not exist, if it may be made now."""
    if creates and not _may_create(name, call):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic_name_error(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not creates:
        if request.allow_auto_topic_creation:
            call.core.advised.advise(MISSING_TOPICS, name, about_missing(name))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return name


def _create(names: Sequence[str], call: Call) -> Mapping[str, Topic | ErrorCode]:
    """Create topics, all that can be created together."""
    core = call.core
    # A client that looks whether a topic is gone makes it again by looking, but must not find it. (Kafka never tells a
    # client of a topic that this very request has made.)
    gone = {name for name in names if core.topics.was_deleted(name)}
    others = [topic.name for topic in core.topics if not topic.is_internal] if len(names) <= _MAX_ADVISED else []
    made: dict[str, Topic | ErrorCode] = {}
    plans: list[TopicPlan] = []
    try:
        refuse_too_large(len(names) * (1 + core.config.integer("num.partitions")))
        for name in names:
            try:
                if name in INTERNAL_TOPICS:
                    made[name] = call.services.create_topic(name)
                else:
                    plans.append(plan_topic(core, name))
            except TopicError as error:
                made[name] = _code_of(error)
        for topic in create_topics(core, plans):
            made[topic.name] = topic
            if (meant := tell_creation(topic.name, others)) is not None:
                call.services.misspelt_topics[topic.name] = meant
    except TopicError as error:
        made.update((name, _code_of(error)) for name in names if name not in made)
    made.update((name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in gone if not isinstance(made[name], ErrorCode))
    return made


def _code_of(error: TopicError) -> ErrorCode:
    """Kafka's broker asks the controller for the topic, and does not wait for its refusal."""
    is_of_controller = error.code in {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION}
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_of_controller else error.code


def _may_describe(name: str, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _may_create(name: str, call: Call) -> bool:
    return call.allows(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or call.allows(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _describe(topic: Topic, request: MetadataRequest, call: Call) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_reported(topic.describe(call.core.cluster), call),
        topic_authorized_operations=_operations(topic.name, request, call),
    )


def _operations(name: str, request: MetadataRequest, call: Call) -> int:
    """The operations that the client may do on a topic, whether it exists or not, if the request asks for them."""
    if not request.include_topic_authorized_operations:
        return NO_AUTHORIZED_OPERATIONS
    return authorized_operations(call, ResourceType.TOPIC, name)


def _brokers(call: Call) -> list[MetadataResponseBroker]:
    """The brokers that are up, at the addresses where this client can find them."""
    brokers: list[MetadataResponseBroker] = []
    for node in call.core.cluster.up:
        host, port = call.address_of(node)
        brokers.append(MetadataResponseBroker(node_id=node.id, host=host, port=port, rack=node.rack))
    return brokers


def _reported(partitions: list[MetadataResponsePartition], call: Call) -> list[MetadataResponsePartition]:
    """As the topic describes them; version 0 only has replicas that are up, and an error if some are not."""
    if call.api_version > 0 or all(not each.offline_replicas for each in partitions):
        return partitions
    nodes = call.core.cluster.nodes
    reported: list[MetadataResponsePartition] = []
    for each in partitions:
        replicas = [node_id for node_id in each.replica_nodes if nodes[node_id].is_up]
        code = ErrorCode.REPLICA_NOT_AVAILABLE if len(replicas) < len(each.replica_nodes) else ErrorCode.NONE
        reported.append(
            MetadataResponsePartition(
                error_code=each.error_code or code,
                partition_index=each.partition_index,
                leader_id=each.leader_id,
                replica_nodes=replicas,
                isr_nodes=[node_id for node_id in each.isr_nodes if nodes[node_id].is_up],
            )
        )
    return reported


def _error(code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def _refuse_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, _version: int, code: ErrorCode
) -> DescribeTopicPartitionsResponse:
    """The error stands at each topic."""
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=code, name=each.name, topic_id=ZERO_UUID, partitions=[])
        for each in request.topics
    ]
    return DescribeTopicPartitionsResponse(topics=topics)


@handles(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    needs=asked_by_handler("DESCRIBE on each topic, or it is hidden"),
    names=topics_at("topics.name"),
    refusal=Refusal(whole=_refuse_describe_topic_partitions),
)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, call: Call
) -> Steps[DescribeTopicPartitionsResponse]:
    """DescribeTopicPartitions: the partitions of topics, page by page (KIP-966).

    Version 0. Topics come in the order of their names; without any, all that the client may see. A page has as many
    partitions as the client wants, but no more than `max.request.partition.size.limit`. A cursor says with which
    partition the page begins, and the answer's says with which the next one will. INVALID_REQUEST for a cursor
    whose topic is not among those asked for, or whose partition is below 0. A partition without a leader is not an
    error. The lists of eligible leader replicas are empty: replicas share one log, so all that are up are in sync.
    """
    cursor = request.cursor
    names = _names(request, call)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return _refuse_describe_topic_partitions(request, call.api_version, ErrorCode.INVALID_REQUEST)
    limit = min(call.core.config.integer("max.request.partition.size.limit"), request.response_partition_limit)
    left = max(limit, 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        yield
        if not _may_describe(name, call):
            continue
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = call.core.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name, call))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), first + left)
        response.topics.append(_page_of(topic, first, end, call))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        left -= max(end - first, 0)
    response.topics += [_hidden(name) for name in names if not _may_describe(name, call)]
    return response


def _names(request: DescribeTopicPartitionsRequest, call: Call) -> list[str]:
    """The names that the page may have, in order, from that of the cursor on."""
    first = "" if request.cursor is None else request.cursor.topic_name
    if request.topics:
        named = {topic.name for topic in request.topics}
    else:
        named = {topic.name for topic in call.core.topics if _may_describe(topic.name, call)}
    return sorted(name for name in named if name >= first)


def _page_of(topic: Topic, first: int, end: int, call: Call) -> DescribeTopicPartitionsResponseTopic:
    nodes = call.core.cluster.nodes
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE,
                partition_index=each.index,
                leader_id=NO_NODE if each.leader is None else each.leader.id,
                leader_epoch=each.leader_epoch,
                replica_nodes=list(each.replicas),
                isr_nodes=list(each.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[node_id for node_id in each.replicas if not nodes[node_id].is_up],
            )
            for each in topic.partitions[first:end]
        ],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, topic.name),
    )


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The refusal of a topic that the client may not describe, whether it exists or not."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=False,
        partitions=[],
    )


def _unknown(name: str, call: Call) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations(call, ResourceType.TOPIC, name),
    )
