"""Handlers for consumer groups (KIP-848): heartbeats and descriptions."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from minibroker.cluster.routing.slices import ForEach
from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.consumer.coordinator import ConsumerGroups
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.modern.coordinator import Answer, Client
from minibroker.coordinators.groups.modern.group import AWAY, JOINING, LEAVING, GroupRefusedError
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions
from minibroker.coordinators.java_order import timeline_order
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import groups_at, handles
from minibroker.server.requests.elements import check_describable, check_group, describe_groups, find_blank_field
from minibroker.server.requests.requirements import TO_SUBSCRIBE, asked_by_handler, on_each
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.consumer_group import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
    Member,
    TopicPartitions,
)

_FIRST_WITH_OWN_MEMBER_IDS: Final = 1
_NOT_SET: Final = -1


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, needs=TO_SUBSCRIBE)
def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat: join, stay in or leave a group of the consumer protocol (KIP-848).

    Versions 0-1 are served. The response is immediate, since no member waits for another
    (`GroupMetadataManager.consumerGroupHeartbeat`). As in Kafka 4 a member can join with an empty list of topics.

    Since version 1 the client creates the member id and can subscribe with a regular expression. The expression is
    resolved after the response, and the matching topics are assigned with the next group epoch. As long as topics or
    rights keep changing, each heartbeat resolves the expression again. Kafka does that in the background. As in Kafka,
    the expression matches only topics that the member that sent the heartbeat may describe.

    Error codes:

    - INVALID_REQUEST: fields contradict each other.
    - INVALID_REGULAR_EXPRESSION: the regular expression is invalid.
    - UNSUPPORTED_VERSION: `group.coordinator.rebalance.protocols` lacks "consumer".
    """
    consumers = call.services.groups.consumers
    if consumers.is_enabled:  # Like Kafka, report a disabled protocol before invalid fields.
        _validate(request, call.api_version, consumers)
    check_group(consumers, request.group_id, call)
    if request.member_epoch in {LEAVING, AWAY}:
        answer = consumers.leave(request.group_id, request.member_id, request.instance_id, request.member_epoch)
        return _build_response(answer, 0)
    may_describe = partial(call.allows, Operation.DESCRIBE, ResourceType.TOPIC)
    answer = consumers.heartbeat(request, Client(call.client_id or "", call.client_host), may_describe)
    # Real clients send ApiVersions, and get a short interval at first. Tests such as Kafka's own do not send it, and
    # expect the exact interval.
    is_short = call.session.waited_fetches is not None
    return _build_response(answer, consumers.heartbeat_interval_ms(request.group_id, is_short_at_first=is_short))


def _validate(request: ConsumerGroupHeartbeatRequest, version: int, consumers: ConsumerGroups) -> None:
    """Check the fields of a request.

    Raises:
        GroupRefusedError: The request is invalid.
    """
    blank = find_blank_field(GroupId=request.group_id, InstanceId=request.instance_id, RackId=request.rack_id)
    message = blank or _member_error(request, version, consumers)
    if message is not None:
        raise GroupRefusedError(ErrorCode.INVALID_REQUEST, message)
    if request.server_assignor is not None and request.server_assignor not in consumers.assignors:
        supported = ", ".join(consumers.assignors)
        raise GroupRefusedError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
        )


def _member_error(request: ConsumerGroupHeartbeatRequest, version: int, consumers: ConsumerGroups) -> str | None:
    epoch = request.member_epoch
    unnamed = {JOINING, AWAY} if consumers.rules.since_4_0 else {JOINING}
    if not request.member_id.strip() and (epoch not in unnamed or version >= _FIRST_WITH_OWN_MEMBER_IDS):
        return "MemberId can't be empty."
    if epoch < AWAY:
        return "MemberEpoch is invalid."
    if epoch == AWAY and request.instance_id is None:
        return "InstanceId can't be null."
    return _joining_error(request) if epoch == JOINING else None


def _joining_error(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == _NOT_SET:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _build_response(answer: Answer, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        partitions = [
            TopicPartitions(topic_id=id_, partitions=sorted(indexes)) for id_, indexes in answer.assignment.items()
        ]
        assignment = Assignment(topic_partitions=partitions)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


_CLASSIC: Final = 0
_CONSUMER: Final = 1
_REFUSED: Final = partial(DescribedGroup, assignor_name="")


@handles(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    needs=on_each(Operation.DESCRIBE, ResourceType.GROUP)
    & asked_by_handler("DESCRIBE on all topics that its members have"),
    names=groups_at("group_ids"),
)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, call: Call
) -> ForEach[ConsumerGroupDescribeResponse]:
    """ConsumerGroupDescribe: describe groups of the consumer protocol, with current and target assignments (KIP-848).

    Versions 0-1 are served, with the protocol of each member since version 1 (KIP-1099). Groups are described one
    by one (`GroupMetadataManager.consumerGroupDescribe`). As in Kafka 4.3, a member's assignment includes
    partitions that it has not revoked yet.

    Error codes:

    - GROUP_ID_NOT_FOUND: there is no consumer group with this id.
    - INVALID_GROUP_ID: the id is empty.
    - TOPIC_AUTHORIZATION_FAILED: the client may not describe one of the group's topics.
    - UNSUPPORTED_VERSION: `group.coordinator.rebalance.protocols` lacks "consumer".
    """
    groups = call.services.groups.consumers
    return describe_groups(
        request, call, groups, _describe, _REFUSED, lambda described: ConsumerGroupDescribeResponse(groups=described)
    )


def _describe(group: ConsumerGroup, call: Call) -> DescribedGroup:
    ordered = timeline_order(group.members)
    members: list[Member] = []
    is_before_4_3 = call.services.is_before("4.3")
    for group_member in ordered:
        owned = (group_member.assigned,) if is_before_4_3 else (group_member.assigned, group_member.revoking)
        member = _describe_member(
            group_member, owned, group.target.get(group_member.member_id, NOTHING), call.core.topics
        )
        check_describable(call, member.assignment, member.target_assignment)
        members.append(member)
    default = next(iter(call.services.groups.consumers.assignors))
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(ordered, default),
        members=members,
    )


def _describe_member(member: ConsumerMember, owned: Sequence[Partitions], target: Partitions, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_describe_assignment(owned, topics),
        target_assignment=_describe_assignment([target], topics),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _describe_assignment(partition_sets: Sequence[Partitions], topics: Topics) -> DescribedAssignment:
    """Merge sets of partitions into one list with topic names. Deleted topics are left out."""
    indexes_by_topic: dict[bytes, list[int]] = {}
    for partitions in partition_sets:
        for topic_id, indexes in partitions.items():
            indexes_by_topic.setdefault(topic_id, []).extend(sorted(indexes))
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes)
            for topic_id, indexes in indexes_by_topic.items()
            if (topic := topics.with_id(topic_id)) is not None
        ]
    )
