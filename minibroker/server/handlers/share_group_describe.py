"""ShareGroupDescribe: share groups, and what their members read (KIP-932).

Version 1. GROUP_ID_NOT_FOUND for what is no such group, INVALID_GROUP_ID for the empty name, TOPIC_AUTHORIZATION_FAILED
for a group with a topic that the client may not describe. UNSUPPORTED_VERSION while the feature share.version is off.
"""

from functools import partial
from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.modern.coordinator import GroupRefusedError
from minibroker.coordinators.groups.share.group import ASSIGNOR, ShareGroup, ShareMember
from minibroker.coordinators.java_order import in_timeline_order
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import groups_at
from minibroker.server.requests.described_groups import described_groups
from minibroker.server.requests.requirements import asked_by_handler, on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import (
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

NAMES: Final = groups_at("group_ids")
NEEDS: Final = on_each(Operation.DESCRIBE, ResourceType.GROUP) & asked_by_handler(
    "DESCRIBE on all topics that its members have"
)
_REFUSED: Final = partial(DescribedGroup, assignor_name="")


def handle(request: ShareGroupDescribeRequest, call: Call) -> Steps[ShareGroupDescribeResponse]:
    """Describe each group by itself (`GroupMetadataManager.shareGroupDescribe`)."""
    groups = call.services.groups.shares
    return ShareGroupDescribeResponse(groups=(yield from described_groups(request, call, groups, _describe, _REFUSED)))


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
    for each in in_timeline_order(group.members):
        member = _member(each, call.core.topics)
        topics = member.assignment.topic_partitions
        if not all(call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic_name) for topic in topics):
            raise GroupRefusedError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "Members of the group read topics that the client may not describe.",
            )
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
