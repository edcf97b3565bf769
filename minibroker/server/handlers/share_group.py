"""Handlers for share groups (KIP-932): heartbeats, descriptions and offsets."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from minibroker.cluster.routing.slices import ForEach, Served, then
from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.modern.coordinator import Client
from minibroker.coordinators.groups.modern.group import JOINING, LEAVING, GroupRefusedError
from minibroker.coordinators.groups.share.group import ASSIGNOR, ShareGroup, ShareMember
from minibroker.coordinators.groups.share.offsets import StartOffset
from minibroker.coordinators.java_order import timeline_order
from minibroker.coordinators.share_state.coordinator import Outcome
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, groups_at, handles, topics_at
from minibroker.server.requests.elements import (
    check_describable,
    check_group,
    describe_groups,
    find_blank_field,
    for_each_partition,
)
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
from minibroker_protocol.primitives import ZERO_UUID

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
    shares = call.services.groups.shares
    # Like Kafka, report disabled share groups before an invalid request.
    message = _request_error(request) if shares.is_enabled else None
    if message is not None:
        raise GroupRefusedError(ErrorCode.INVALID_REQUEST, message)
    check_group(shares, request.group_id, call)
    if request.member_epoch == LEAVING:
        answer = shares.leave(request.group_id, request.member_id, None, LEAVING)
    else:
        answer = shares.heartbeat(request, Client(call.client_id or "", call.client_host))
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
    """Return the error message for an invalid request, or None."""
    if not request.member_id or len(request.member_id) > _MAX_MEMBER_ID_LENGTH:
        return f"A member id has 1 to {_MAX_MEMBER_ID_LENGTH} characters."
    blank = find_blank_field(MemberId=request.member_id, GroupId=request.group_id, RackId=request.rack_id)
    if blank is not None:
        return blank
    if request.member_epoch < LEAVING:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return None


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
        member = _describe_member(group_member, call.core.topics)
        check_describable(call, member.assignment)
        described.members.append(member)
    return described


def _describe_member(member: ShareMember, topics: Topics) -> Member:
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
    (`GroupCoordinatorService.describeShareGroupOffsets`). Null topics select all topics with a state. If a group has
    not read a partition, or the share coordinator cannot read its state, the offset is -1 without an error, as in
    Kafka. While the feature share.version is off, the error is UNSUPPORTED_VERSION.
    """
    return ForEach(
        request.groups,
        lambda requested: _describe_offsets(requested, call),
        lambda groups: DescribeShareGroupOffsetsResponse(groups=groups),
    )


def _describe_offsets(
    requested: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> ForEach[DescribeShareGroupOffsetsResponseGroup]:
    code, topics = _topics_of(requested, call)
    describable_ids = {
        topic.topic_name: _topic_id(topic.topic_name, call)
        for topic in topics
        if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic_name)
    }

    def answer(topic: DescribeShareGroupOffsetsRequestTopic, index: int) -> DescribeShareGroupOffsetsResponsePartition:
        start = StartOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.topic_name in describable_ids:
            start = call.services.groups.share_offsets.start_of(requested.group_id, topic.topic_name, index)
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            start_offset=start.start_offset,
            leader_epoch=start.leader_epoch,
            lag=start.lag,
            error_code=start.code,
            error_message=start.code.meaning if start.code else None,
        )

    return for_each_partition(
        topics,
        "partitions",
        answer,
        lambda topic, partitions: DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            topic_id=describable_ids.get(topic.topic_name, ZERO_UUID),
            partitions=partitions,
        ),
        lambda topics: DescribeShareGroupOffsetsResponseGroup(
            group_id=requested.group_id, topics=topics, error_code=code
        ),
    )


def _topics_of(
    requested: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> tuple[ErrorCode, list[DescribeShareGroupOffsetsRequestTopic]]:
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
    return code, [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
        for name, indexes in coordinator.share_offsets.find_initialized(group_id).items()
        if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    ]


def _merge_topics(
    topics: Iterable[DescribeShareGroupOffsetsRequestTopic], call: Call
) -> list[DescribeShareGroupOffsetsRequestTopic]:
    """Merge repeated topics, as Kafka's share coordinator does, but not topics that are missing or hidden."""
    result: list[DescribeShareGroupOffsetsRequestTopic] = []
    merged: dict[str, dict[int, None]] = {}
    for topic in topics:
        name = topic.topic_name
        if call.core.topics.get(name) is None or not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            result.append(topic)
        else:
            merged.setdefault(name, {}).update(dict.fromkeys(topic.partitions))
    return result + [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(indexes))
        for name, indexes in merged.items()
    ]


def _topic_id(name: str, call: Call) -> bytes:
    """Return the id of a topic, or zeros if the topic does not exist."""
    topic = call.core.topics.get(name)
    return ZERO_UUID if topic is None else topic.id


@handles(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    needs=on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.topic_name", "partitions.partition_index"),
    refusal=Refusal(explained=True),
)
def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, call: Call
) -> Served[AlterShareGroupOffsetsResponse]:
    """AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932).

    Version 0 is served. The states of the partitions are initialized again
    (`GroupCoordinatorService.alterShareGroupOffsets`). An unknown group is created.

    Error codes:

    - NON_EMPTY_GROUP: the group has members.
    - GROUP_ID_NOT_FOUND: the group is of another type.
    - UNSUPPORTED_VERSION: the feature share.version is off.
    """
    groups = call.services.groups
    check_group(groups.shares, request.group_id, call)
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        by_index = offsets.setdefault(topic.topic_name, {})
        by_index.update((partition.partition_index, partition.start_offset) for partition in topic.partitions)
    work: ForEach[AlterShareGroupOffsetsResponse] = then(
        groups.share_offsets.alter(request.group_id, offsets), lambda outcomes: _build_alter_response(outcomes, call)
    )
    return work


def _build_alter_response(outcomes: Mapping[str, Mapping[int, Outcome]], call: Call) -> AlterShareGroupOffsetsResponse:
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
    for name, by_partition in outcomes.items():
        partitions = [
            AlterShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=outcome.code, error_message=outcome.message
            )
            for index, outcome in by_partition.items()
        ]
        responses.append(
            AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=_topic_id(name, call), partitions=partitions)
        )
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)


@handles(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    needs=on_group(Operation.DELETE) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.topic_name"),
    refusal=Refusal(explained=True),
)
def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, call: Call
) -> Served[DeleteShareGroupOffsetsResponse]:
    """DeleteShareGroupOffsets: delete an empty share group's offsets for some topics (KIP-932).

    Version 0 is served. The states of all partitions of the topics are deleted
    (`GroupCoordinatorService.deleteShareGroupOffsets`).

    Error codes:

    - NON_EMPTY_GROUP: the group has members.
    - GROUP_ID_NOT_FOUND: there is no share group with this id.
    - UNKNOWN_TOPIC_OR_PARTITION: the group has no offsets for the topic.
    - UNSUPPORTED_VERSION: the feature share.version is off.
    """
    groups = call.services.groups
    check_group(groups.shares, request.group_id, call)
    if not request.topics and call.services.is_before("4.2"):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=[])
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    work: ForEach[DeleteShareGroupOffsetsResponse] = then(
        groups.share_offsets.delete(request.group_id, names), lambda outcomes: _build_delete_response(outcomes, call)
    )
    return work


def _build_delete_response(outcomes: Mapping[str, Outcome], call: Call) -> DeleteShareGroupOffsetsResponse:
    responses = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=_topic_id(name, call), error_code=outcome.code, error_message=outcome.message
        )
        for name, outcome in outcomes.items()
    ]
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)
