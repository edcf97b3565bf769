"""Handlers for share groups (KIP-932): heartbeats, descriptions and offsets."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.routing.slices import ForEach, Steps, catch_errors, then
from minibroker.cluster.topics import Topic, Topics
from minibroker.coordinators.groups.modern.coordinator import Client
from minibroker.coordinators.groups.modern.group import JOINING, LEAVING, GroupRefusedError
from minibroker.coordinators.groups.share.group import ASSIGNOR, ShareGroup, ShareMember
from minibroker.coordinators.groups.share.offsets import StartOffset
from minibroker.coordinators.java_order import timeline_order
from minibroker.coordinators.share_state.coordinator import Outcome
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, groups_at, handles, topics_at
from minibroker.server.requests.elements import check_describable, describe_groups, for_each_partition
from minibroker.server.requests.requirements import TO_SUBSCRIBE, asked_by_handler, on_each, on_group
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    Assignment,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_MAX_MEMBER_ID_LENGTH: Final = 36


@handles(ApiKey.SHARE_GROUP_HEARTBEAT, needs=TO_SUBSCRIBE)
def share_group_heartbeat(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    """ShareGroupHeartbeat: join, stay in or leave a share group (KIP-932).

    Version 1 is served. The response is immediate, since no member waits for another
    (`GroupMetadataManager.shareGroupHeartbeat`). The client creates the member id, of at most 36 characters. A
    partition is assigned once its state exists. As in Kafka, the state is created after the first heartbeat that
    names the topic, and a later response assigns the partition.

    Error codes:

    - INVALID_REQUEST: fields contradict each other.
    - GROUP_ID_NOT_FOUND: the group is of another type.
    - UNSUPPORTED_VERSION: the feature share.version is off.
    """
    coordinator = call.services.groups
    shares = coordinator.shares
    if not shares.is_enabled:
        return _refuse_heartbeat(ErrorCode.UNSUPPORTED_VERSION)
    message = _request_error(request)
    if message is not None:
        return _refuse_heartbeat(ErrorCode.INVALID_REQUEST, message)
    code = coordinator.status(request.group_id, call.node)
    if code:
        return _refuse_heartbeat(code)
    try:
        if request.member_epoch == LEAVING:
            answer = shares.leave(request.group_id, request.member_id, None, LEAVING)
        else:
            answer = shares.heartbeat(request, Client(call.client_id or "", call.client_host))
    except GroupRefusedError as error:
        return _refuse_heartbeat(error.code, error.message)
    assignment = None
    if answer.assignment is not None:
        partitions = [
            TopicPartitions(topic_id=id_, partitions=sorted(indexes)) for id_, indexes in answer.assignment.items()
        ]
        assignment = Assignment(topic_partitions=partitions)
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=0 if answer.epoch == LEAVING else shares.heartbeat_interval_ms(request.group_id),
        assignment=assignment,
    )


def _request_error(request: ShareGroupHeartbeatRequest) -> str | None:
    """Return why a request is invalid, or None."""
    if not request.member_id or len(request.member_id) > _MAX_MEMBER_ID_LENGTH:
        return f"A member id has 1 to {_MAX_MEMBER_ID_LENGTH} characters."
    texts = {"MemberId": request.member_id, "GroupId": request.group_id, "RackId": request.rack_id}
    blank = next((name for name, text in texts.items() if text is not None and not text.strip()), None)
    if blank is not None:
        return f"{blank} can't be empty."
    if request.member_epoch < LEAVING:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return None


def _refuse_heartbeat(code: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)


_REFUSED: Final = partial(DescribedGroup, assignor_name="")


@handles(
    ApiKey.SHARE_GROUP_DESCRIBE,
    needs=on_each(Operation.DESCRIBE, ResourceType.GROUP)
    & asked_by_handler("DESCRIBE on all topics that its members have"),
    names=groups_at("group_ids"),
)
def share_group_describe(request: ShareGroupDescribeRequest, call: Call) -> ForEach[ShareGroupDescribeResponse]:
    """ShareGroupDescribe: describe share groups, with the assignments of their members (KIP-932).

    Version 1 is served. Groups are described one by one (`GroupMetadataManager.shareGroupDescribe`).

    Error codes:

    - GROUP_ID_NOT_FOUND: there is no share group with this id.
    - INVALID_GROUP_ID: the id is empty.
    - TOPIC_AUTHORIZATION_FAILED: the client may not describe one of the group's topics.
    - UNSUPPORTED_VERSION: the feature share.version is off.
    """
    groups = call.services.groups.shares
    return describe_groups(
        request, call, groups, _describe, _REFUSED, lambda described: ShareGroupDescribeResponse(groups=described)
    )


def _describe(group: ShareGroup, call: Call) -> DescribedGroup:
    described = DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[],
    )
    for group_member in timeline_order(group.members):
        member = _member(group_member, call.core.topics)
        check_describable(call, member.assignment)
        described.members.append(member)
    return described


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=DescribedAssignment(
            topic_partitions=[
                DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
                for topic_id, indexes in member.assigned.items()
                if (topic := topics.with_id(topic_id)) is not None
            ]
        ),
    )


_NO_TOPIC_ID: Final = bytes(16)


@handles(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    needs=asked_by_handler("DESCRIBE on each group and on each topic; all topics: those it may describe"),
    names=topics_at("groups.topics.topic_name", "partitions"),
    refusal=Refusal(explained=True),
)
def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, call: Call
) -> ForEach[DescribeShareGroupOffsetsResponse]:
    """DescribeShareGroupOffsets: return the start offsets and the lag of share groups (KIP-932).

    Versions 0-1 are served, with the lag since version 1 (KIP-1226). Groups are described one by one
    (`GroupCoordinatorService.describeShareGroupOffsets`). Null topics select all that have a state. If a group has not
    read a partition, or the share coordinator cannot read its state, the offset is -1 without an error, as in Kafka.
    While the feature share.version is off, the error is UNSUPPORTED_VERSION.
    """
    return ForEach(
        request.groups,
        lambda requested: _describe_offsets(requested, call),
        lambda groups: DescribeShareGroupOffsetsResponse(groups=groups),
    )


class _NamedTopic(NamedTuple):
    """A topic named in a request to describe offsets.

    Attributes:
        known: The topic, or None if it does not exist or the client may not describe it.
    """

    name: str
    indexes: list[int]
    is_allowed: bool
    known: Topic | None


def _describe_offsets(
    requested: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> ForEach[DescribeShareGroupOffsetsResponseGroup]:
    code, requested_topics = _topics_of(requested, call)
    topics: list[_NamedTopic] = []
    for name, indexes in requested_topics:
        is_allowed = call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
        topics.append(_NamedTopic(name, indexes, is_allowed, call.core.topics.get(name) if is_allowed else None))

    def answer(topic: _NamedTopic, index: int) -> DescribeShareGroupOffsetsResponsePartition:
        start = StartOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.is_allowed:
            start = call.services.groups.share_offsets.start_of(requested.group_id, topic.name, index)
        return _partition(index, start)

    return for_each_partition(
        topics,
        "indexes",
        answer,
        lambda topic, partitions: DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.name,
            topic_id=_NO_TOPIC_ID if topic.known is None else topic.known.id,
            partitions=partitions,
        ),
        lambda topics: DescribeShareGroupOffsetsResponseGroup(
            group_id=requested.group_id, topics=topics, error_code=code
        ),
    )


def _topics_of(
    requested: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> tuple[ErrorCode, list[tuple[str, list[int]]]]:
    """Return the error of a group, or NONE, and the partitions to describe."""
    group_id = requested.group_id
    coordinator = call.services.groups
    code = ErrorCode.NONE
    if not coordinator.shares.is_enabled:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif requested.topics is None or requested.topics:
        code = coordinator.store.check_readiness(group_id, call.node)
    if code:
        return code, []
    if requested.topics is not None:
        return code, _merge_topics(requested.topics, call)
    initialized = coordinator.share_offsets.find_initialized(group_id).items()
    return code, [topic for topic in initialized if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic[0])]


def _merge_topics(topics: Iterable[DescribeShareGroupOffsetsRequestTopic], call: Call) -> list[tuple[str, list[int]]]:
    """Return the partitions of each topic. Existing topics are merged, as by Kafka's share coordinator."""
    result: list[tuple[str, list[int]]] = []
    indexes_by_topic: dict[str, dict[int, None]] = {}
    for topic in topics:
        name = topic.topic_name
        if call.core.topics.get(name) is None or not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            result.append((name, topic.partitions))
        else:
            indexes_by_topic.setdefault(name, {}).update(dict.fromkeys(topic.partitions))
    return [*result, *((name, list(indexes)) for name, indexes in indexes_by_topic.items())]


def _partition(index: int, start: StartOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=start.start_offset,
        leader_epoch=start.leader_epoch,
        lag=start.lag,
        error_code=start.code,
        error_message=start.code.meaning if start.code else None,
    )


@handles(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    needs=on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.topic_name", "partitions.partition_index"),
    refusal=Refusal(explained=True),
)
def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, call: Call
) -> AlterShareGroupOffsetsResponse | Steps[AlterShareGroupOffsetsResponse]:
    """AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932).

    Version 0 is served. The states of the partitions are initialized again
    (`GroupCoordinatorService.alterShareGroupOffsets`). An unknown group is created.

    Error codes:

    - NON_EMPTY_GROUP: the group has members.
    - GROUP_ID_NOT_FOUND: the group is of another type.
    - UNSUPPORTED_VERSION: the feature share.version is off.
    """
    code = _change_error(request.group_id, call)
    if code:
        return _refuse_alteration(code)
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        by_index = offsets.setdefault(topic.topic_name, {})
        by_index.update((partition.partition_index, partition.start_offset) for partition in topic.partitions)
    groups = call.services.groups.share_offsets
    return catch_errors(
        lambda: then(groups.alter(request.group_id, offsets), lambda outcomes: _build_alter_response(outcomes, call)),
        GroupRefusedError,
        lambda error: _refuse_alteration(error.code, error.message),
    )


def _change_error(group_id: str, call: Call) -> ErrorCode:
    """Return the error that prevents a change of a share group's offsets, or NONE."""
    groups = call.services.groups
    return groups.status(group_id, call.node) if groups.shares.is_enabled else ErrorCode.UNSUPPORTED_VERSION


def _build_alter_response(outcomes: Mapping[str, Mapping[int, Outcome]], call: Call) -> AlterShareGroupOffsetsResponse:
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
    for name, by_partition in outcomes.items():
        topic = call.core.topics.get(name)
        partitions = [
            AlterShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=outcome.code, error_message=outcome.message
            )
            for index, outcome in by_partition.items()
        ]
        topic_id = _NO_TOPIC_ID if topic is None else topic.id
        responses.append(AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=partitions))
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)


def _refuse_alteration(code: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message, responses=[])


@handles(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    needs=on_group(Operation.DELETE) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.topic_name"),
    refusal=Refusal(explained=True),
)
def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, call: Call
) -> DeleteShareGroupOffsetsResponse | Steps[DeleteShareGroupOffsetsResponse]:
    """DeleteShareGroupOffsets: delete an empty share group's offsets for some topics (KIP-932).

    Version 0 is served. The states of all partitions of the topics are deleted
    (`GroupCoordinatorService.deleteShareGroupOffsets`).

    Error codes:

    - NON_EMPTY_GROUP: the group has members.
    - GROUP_ID_NOT_FOUND: there is no share group with this id.
    - UNKNOWN_TOPIC_OR_PARTITION: the group has no offsets for the topic.
    - UNSUPPORTED_VERSION: the feature share.version is off.
    """
    code = _change_error(request.group_id, call)
    if code:
        return _refuse_deletion(code)
    if not request.topics and call.services.is_before("4.2"):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=[])
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    groups = call.services.groups.share_offsets
    return catch_errors(
        lambda: then(groups.delete(request.group_id, names), lambda outcomes: _build_delete_response(outcomes, call)),
        GroupRefusedError,
        lambda error: _refuse_deletion(error.code, error.message),
    )


def _build_delete_response(outcomes: Mapping[str, Outcome], call: Call) -> DeleteShareGroupOffsetsResponse:
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
    for name, outcome in outcomes.items():
        topic = call.core.topics.get(name)
        responses.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=_NO_TOPIC_ID if topic is None else topic.id,
                error_code=outcome.code,
                error_message=outcome.message,
            )
        )
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)


def _refuse_deletion(code: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message, responses=[])
