"""The records of a share group, as they are written (Kafka's `GroupCoordinatorRecordHelpers`)."""

from collections.abc import Collection
from typing import Final

from minibroker.coordinators.groups.modern.changes import Change, member_tombstones
from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker.coordinators.groups.share.member import ShareMember
from minibroker.coordinators.groups.share.state_partitions import StatePartitions
from minibroker_protocol.coordinator_records import share_groups as records

_OF_MEMBERS: Final = (
    records.ShareGroupCurrentMemberAssignmentKey,
    records.ShareGroupTargetAssignmentMemberKey,
    records.ShareGroupMemberMetadataKey,
)
"""The keys of a member's records, in the order in which Kafka insists on their tombstones."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Change:
    """The group has come to an epoch, with topics of this hash."""
    key = records.ShareGroupMetadataKey(group_id=group_id)
    return Change(key, records.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def member_metadata(group_id: str, member: ShareMember) -> Change:
    """The records of a member with its subscription."""
    key = records.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return Change(key, member.to_metadata())


def current_assignment(group_id: str, member: ShareMember) -> Change:
    """A member stands here."""
    key = records.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Change(key, member.to_current())


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> Change:
    """A member is to read this."""
    listed = [records.TopicPartition(topic_id=topic, partitions=sorted(each)) for topic, each in partitions.items()]
    key = records.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return Change(key, records.ShareGroupTargetAssignmentMemberValue(topic_partitions=listed))


def assignment_epoch(group_id: str, epoch: int, now_ms: int) -> Change:
    """The assignments are those of an epoch, and were made now."""
    key = records.ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = records.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return Change(key, value)


def state_partitions(group_id: str, partitions: StatePartitions) -> Change:
    """The group's share-partitions are so."""
    return Change(records.ShareGroupStatePartitionMetadataKey(group_id=group_id), partitions.to_value())


def without_member(group_id: str, member_id: str) -> list[Change]:
    """A member is gone."""
    return [tombstone for (tombstone,) in member_tombstones(_OF_MEMBERS, group_id, [member_id])]


def without_group(group_id: str, members: Collection[str]) -> list[Change]:
    """The group is gone, with all its members."""
    current, target, metadata = member_tombstones(_OF_MEMBERS, group_id, members)
    return [
        *current,
        *target,
        Change(records.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *metadata,
        Change(records.ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        Change(records.ShareGroupMetadataKey(group_id=group_id), None),
    ]
