"""ConsumerGroupDescribe: groups of the consumer protocol, what their members read, and what they are to read (KIP-848).

Versions 0-1; from version 1 on it has the protocol of each member (KIP-1099). GROUP_ID_NOT_FOUND for what is no
such group, INVALID_GROUP_ID for the empty name, TOPIC_AUTHORIZATION_FAILED for a group with a topic that the client may
not describe. UNSUPPORTED_VERSION where `group.coordinator.rebalance.protocols` lacks "consumer".
Since Kafka 4.3 a member has what it has to give up until it has done so.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.modern.coordinator import GroupRefusedError
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions
from minibroker.coordinators.java_order import in_timeline_order
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import groups_at
from minibroker.server.requests.described_groups import described_groups
from minibroker.server.requests.requirements import asked_by_handler, on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
    Member,
)

_CLASSIC: Final = 0
_CONSUMER: Final = 1

NAMES: Final = groups_at("group_ids")
NEEDS: Final = on_each(Operation.DESCRIBE, ResourceType.GROUP) & asked_by_handler(
    "DESCRIBE on all topics that its members have"
)
_REFUSED: Final = partial(DescribedGroup, assignor_name="")


def handle(request: ConsumerGroupDescribeRequest, call: Call) -> Steps[ConsumerGroupDescribeResponse]:
    """Describe each group by itself (`GroupMetadataManager.consumerGroupDescribe`)."""
    return ConsumerGroupDescribeResponse(
        groups=(yield from described_groups(request, call, call.services.groups.consumers, _describe, _REFUSED))
    )


def _describe(group: ConsumerGroup, call: Call) -> DescribedGroup:
    listed = in_timeline_order(group.members)
    members: list[Member] = []
    is_before_4_3 = call.services.is_before("4.3")
    for each in listed:
        held = (each.assigned,) if is_before_4_3 else (each.assigned, each.revoking)
        member = _member(each, held, group.target.get(each.member_id, NOTHING), call.core.topics)
        if not _may_describe_topics(member, call):
            raise GroupRefusedError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "Members of the group read topics that the client may not describe.",
            )
        members.append(member)
    default = next(iter(call.services.groups.consumers.assignors))
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(listed, default),
        members=members,
    )


def _may_describe_topics(member: Member, call: Call) -> bool:
    """Whether the client may know of all topics that a member reads, or is to read."""
    return all(
        call.allows(Operation.DESCRIBE, ResourceType.TOPIC, each.topic_name)
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    )


def _member(member: ConsumerMember, held: Sequence[Partitions], target: Partitions, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment([target], topics),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(several: Sequence[Partitions], topics: Topics) -> DescribedAssignment:
    """Partitions one set after the other, with the names of their topics; without topics that are gone."""
    found: dict[bytes, list[int]] = {}
    for partitions in several:
        for topic_id, indexes in partitions.items():
            found.setdefault(topic_id, []).extend(sorted(indexes))
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes)
            for topic_id, indexes in found.items()
            if (topic := topics.with_id(topic_id)) is not None
        ]
    )
