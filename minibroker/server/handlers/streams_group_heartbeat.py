"""The StreamsGroupHeartbeat handler."""

from collections.abc import Iterable, Sequence
from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.topic_admin import (
    DEFAULT,
    TopicError,
    TopicPlan,
    create_topics,
    plan_topic,
    refuse_too_large,
    refuse_too_many,
)
from minibroker.cluster.topics import topic_name_error
from minibroker.coordinators.groups.modern.coordinator import Client
from minibroker.coordinators.groups.modern.group import AWAY, JOINING, LEAVING, GroupRefusedError
from minibroker.coordinators.groups.streams.coordinator import StreamsAnswer
from minibroker.coordinators.groups.streams.group import EndpointPartitions
from minibroker.coordinators.groups.streams.internal_topics import InternalTopic, StatusCode
from minibroker.server.handlers.streams_group import task_ids
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.elements import check_group, find_blank_field
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler, check_can_subscribe, may_create_topic, on_request
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import INTERNAL_TOPICS
from minibroker_protocol.messages.streams_group import Endpoint, TaskIds
from minibroker_protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicPartition,
)

_NOT_SET: Final = -1
_MAX_REPORTED_FAILURES: Final = 3
_MAX_TOPOLOGY_ELEMENTS: Final = 2_500
_FIRST_WITH_MISSING_TAGS: Final = 1
_TASK_FIELDS: Final = ("ActiveTasks", "StandbyTasks", "WarmupTasks")


def _authorization_error(request: StreamsGroupHeartbeatRequest, call: Call) -> ErrorCode:
    """Return the error for a missing right. A topology can only use topics that the member may describe."""
    topics = _topics(request)
    # Invalid topic names are refused later, with a more specific error.
    is_refused = any(name in INTERNAL_TOPICS or topic_name_error(name) for name in topics)
    return check_can_subscribe(call, request.group_id, () if is_refused else topics)


@handles(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    needs=on_request(_authorization_error, "READ on the group; DESCRIBE on all topics of the topology")
    & asked_by_handler("to make internal topics: CREATE on the cluster, or on each of them"),
    refusal=Refusal({"status": []}),
)
def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, call: Call
) -> StreamsGroupHeartbeatResponse | DelayedResponse:
    """StreamsGroupHeartbeat: join, stay in or leave a streams group, and return a member's tasks (KIP-1071).

    Versions 0-1 are served. The response is immediate, since no member waits for another
    (`GroupMetadataManager.streamsGroupHeartbeat`). Version 1 reports client tags that the member lacks, and the
    acceptable recovery lag. The client creates the member id.

    The coordinator determines the internal topics of the topology, and creates missing ones if the client has the
    right to do so. Tasks are assigned once all topics exist. Until then a status describes the problem. As in Kafka
    4.4 there are no warm-up tasks, topologies cannot change, and without a plugin no description of a topology is
    requested (KIP-1331). Emulated releases up to 4.3 have no static members and ignore the offsets of tasks.

    Error codes:

    - INVALID_REQUEST: fields contradict each other.
    - STREAMS_INVALID_TOPOLOGY: the topology cannot work.
    - GROUP_ID_NOT_FOUND: the group is of another type.
    - UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID: another member has the same instance id.
    - UNSUPPORTED_VERSION: the feature streams.version is off.
    """
    streams = call.services.groups.streams
    if streams.is_enabled:  # Like Kafka, report disabled streams groups before invalid fields.
        _check(request, call)
    check_group(streams, request.group_id, call)
    if request.member_epoch in {LEAVING, AWAY}:
        answer_to_leaving = streams.leave_with_shutdown(
            request.group_id,
            request.member_id,
            request.instance_id,
            request.member_epoch,
            shuts_down=request.shutdown_application,
        )
        return _build_response(answer_to_leaving)
    client = Client(call.client_id or "", call.client_host)
    supports_missing_tags = call.api_version >= _FIRST_WITH_MISSING_TAGS
    answer = streams.heartbeat(request, client, supports_missing_tags=supports_missing_tags)
    response = _build_response(answer)
    response.heartbeat_interval_ms = streams.heartbeat_interval_ms(request.group_id)
    if not call.services.is_before("4.4"):
        response.task_offset_interval_ms = streams.task_offset_interval_ms(request.group_id)
        response.acceptable_recovery_lag = streams.acceptable_recovery_lag(request.group_id)
    if not answer.missing:
        return response
    _create_topics(answer.missing.values(), response, call)
    return hold(response, request, call)


def _check(request: StreamsGroupHeartbeatRequest, call: Call) -> None:
    """Check the fields of a request that do not depend on the group.

    Raises:
        GroupRefusedError: The request is invalid.
    """
    for check, code in (
        (_size_error, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (_topic_name_error, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        *(((_new_field_error, ErrorCode.INVALID_REQUEST),) if call.services.is_before("4.4") else ()),
        (_regex_error, ErrorCode.INVALID_REQUEST),
        (_field_error, ErrorCode.INVALID_REQUEST),
        (_changelog_error, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (_task_error, ErrorCode.INVALID_REQUEST),
    ):
        message = check(request)
        if message is not None:
            raise GroupRefusedError(code, message)


def _subtopologies(request: StreamsGroupHeartbeatRequest) -> Sequence[Subtopology]:
    return () if request.topology is None else request.topology.subtopologies


def _topics(request: StreamsGroupHeartbeatRequest) -> list[str]:
    """Return all topics of the topology, in the order in which Kafka checks them."""
    topics: dict[str, None] = {}
    for subtopology in _subtopologies(request):
        topics.update(dict.fromkeys((*subtopology.source_topics, *subtopology.repartition_sink_topics)))
        topics.update(dict.fromkeys(info.name for info in subtopology.repartition_source_topics))
        topics.update(dict.fromkeys(info.name for info in subtopology.state_changelog_topics))
    return list(topics)


def _size_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for a topology that is too large to process quickly. Kafka has no such limit."""
    size = 0
    for subtopology in _subtopologies(request):
        internal = [*subtopology.repartition_source_topics, *subtopology.state_changelog_topics]
        size += 1 + len(subtopology.source_topics) + len(subtopology.repartition_sink_topics) + len(internal)
        size += len(subtopology.copartition_groups)
        size += sum(len(info.topic_configs) for info in internal)
        size += sum(
            len(group.source_topics) + len(group.repartition_source_topics) for group in subtopology.copartition_groups
        )
        if size > _MAX_TOPOLOGY_ELEMENTS:
            return (
                f"The topology has more than {_MAX_TOPOLOGY_ELEMENTS:,} subtopologies, topics and settings of topics."
            )
    return None


def _topic_name_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for topic names that no application can use."""
    topics = _topics(request)
    prohibited = [name for name in topics if name in INTERNAL_TOPICS]
    if prohibited:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in topics if topic_name_error(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None


def _changelog_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for a changelog topic with a number of partitions. The tasks determine that number."""
    for subtopology in _subtopologies(request):
        for info in subtopology.state_changelog_topics:
            if info.partitions:
                return (
                    f"Changelog topic {info.name} must have an undefined partition count, "
                    f"but it is set to {info.partitions}."
                )
    return None


def _new_field_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for fields that releases before 4.4 refuse."""
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    return None


def _regex_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for regular expressions, which no release of Kafka supports yet."""
    if any(subtopology.source_topic_regex for subtopology in _subtopologies(request)):
        return "Regular expressions for source topics are not supported yet."
    return None


def _field_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for any other field except tasks and topologies."""
    blank = find_blank_field(
        MemberId=request.member_id, GroupId=request.group_id, InstanceId=request.instance_id, RackId=request.rack_id
    )
    if blank is not None:
        return blank
    if request.member_epoch == AWAY and request.instance_id is None:
        return "InstanceId can't be null."
    if request.member_epoch < AWAY:
        return f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
    return _joining_error(request) if request.member_epoch == JOINING else None


def _joining_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for fields that a joining member must set or must not set."""
    if request.rebalance_timeout_ms == _NOT_SET:
        return "RebalanceTimeoutMs must be provided in first request."
    for name, tasks in zip(_TASK_FIELDS, _tasks(request), strict=True):
        if tasks:
            return f"{name} must be empty when (re-)joining."
    return "Topology must be non-null when (re-)joining." if request.topology is None else None


def _task_error(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return an error for incomplete lists of tasks, or for a topology from a member that has already joined."""
    tasks = _tasks(request)
    if any(kind is not None for kind in tasks) and any(kind is None for kind in tasks):
        return "If one task-type is non-null, all must be non-null."
    if request.member_epoch != JOINING and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None


def _tasks(request: StreamsGroupHeartbeatRequest) -> tuple[list[TaskIds] | None, ...]:
    return request.active_tasks, request.standby_tasks, request.warmup_tasks


def _build_response(answer: StreamsAnswer) -> StreamsGroupHeartbeatResponse:
    response = StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=0,
        task_offset_interval_ms=0,
        status=[Status(status_code=status.code, status_detail=status.detail) for status in answer.statuses],
        endpoint_information_epoch=answer.endpoint_epoch,
    )
    if answer.tasks is not None:
        response.active_tasks = task_ids(answer.tasks.without_epochs().active)
        response.standby_tasks = task_ids(answer.tasks.standby)
        response.warmup_tasks = task_ids(answer.tasks.warmup)
    if answer.endpoints is not None:
        response.partitions_by_user_endpoint = [_build_endpoint(endpoint) for endpoint in answer.endpoints]
    return response


def _build_endpoint(member: EndpointPartitions) -> EndpointToPartitions:
    host, port = member.endpoint
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=port),
        active_partitions=[TopicPartition(topic=topic, partitions=indexes) for topic, indexes in member.active],
        standby_partitions=[TopicPartition(topic=topic, partitions=indexes) for topic, indexes in member.standby],
    )


def _create_topics(topics: Iterable[InternalTopic], response: StreamsGroupHeartbeatResponse, call: Call) -> None:
    """Create internal topics, and add failures to the member's status (`AutoTopicCreationManager`)."""
    ordered = list(topics)
    refused = [topic.name for topic in ordered if not may_create_topic(call, topic.name)]
    if refused:
        _add_status_detail(response, f"; Unauthorized to CREATE on topics {', '.join(refused)}.")
        return
    plans: list[TopicPlan] = []
    failed: list[str] = []
    for topic in ordered:
        try:
            factor = topic.replication_factor or DEFAULT
            plans.append(plan_topic(call.core, topic.name, topic.partitions, factor, dict(topic.configs)))
        except TopicError as error:
            failed.append(f"{topic.name} ({error})")
    try:
        partitions = sum(plan.partitions for plan in plans)
        refuse_too_many(partitions)
        refuse_too_large(partitions + len(plans))
        create_topics(call.core, plans)
    except TopicError as error:
        failed += [f"{plan.name} ({error})" for plan in plans]
    if failed:
        more = f" and {len(failed) - _MAX_REPORTED_FAILURES} more" if len(failed) > _MAX_REPORTED_FAILURES else ""
        _add_status_detail(response, f"; Creation failed: {', '.join(failed[:_MAX_REPORTED_FAILURES])}{more}.")


def _add_status_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += detail
