"""The records of a consumer group, as they are written (Kafka's `CoordinatorRecordHelpers`).

A change is a key and its value, or None for a tombstone. Those of one step are written as one batch, and count when it
is in the log (`ConsumerGroup.apply`).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from minibroker.coordinators.groups.consumer.group import ConsumerGroup, TopicMetadata
from minibroker.coordinators.groups.consumer.member import ConsumerMember
from minibroker.coordinators.groups.consumer.partitions import Partitions
from minibroker_protocol.coordinator_records import consumer_groups as records
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.records import NewRecord
from minibroker_protocol.schema import schema_of

_VALUE_VERSION: Final = 0
_OF_MEMBERS: Final = (
    records.ConsumerGroupCurrentMemberAssignmentKey,
    records.ConsumerGroupTargetAssignmentMemberKey,
    records.ConsumerGroupMemberMetadataKey,
)
"""The keys of a member's records, in the order in which Kafka insists on their tombstones."""


class Change(NamedTuple):
    """A record."""

    key: Any
    value: Any | None

    def encode(self, now_ms: int) -> NewRecord:
        """The record as it is written."""
        value = None if self.value is None else encode_versioned(self.value, _VALUE_VERSION)
        return NewRecord(self.encode_key(), value, now_ms)

    def encode_key(self) -> bytes:
        """Its key as it is written; the version says what kind of record it is."""
        return encode_versioned(self.key, schema_of(self.key.__class__).versions.first)


def member_tombstones(kinds: Sequence[type[Any]], group_id: str, members: Collection[str]) -> list[list[Change]]:
    """The tombstones of members' records, by kind of key."""
    return [[Change(kind(group_id=group_id, member_id=each), None) for each in members] for kind in kinds]


def group_epoch(group_id: str, epoch: int) -> Change:
    """The group has come to an epoch."""
    key = records.ConsumerGroupMetadataKey(group_id=group_id)
    return Change(key, records.ConsumerGroupMetadataValue(epoch=epoch))


def subscribed_topics(group_id: str, topics: Mapping[str, TopicMetadata]) -> Change:
    """The topics that the members subscribe to are like this now; there are no racks."""
    listed = [
        records.TopicMetadata(
            topic_id=topic.topic_id, topic_name=name, num_partitions=topic.partitions, partition_metadata=[]
        )
        for name, topic in topics.items()
    ]
    key = records.ConsumerGroupPartitionMetadataKey(group_id=group_id)
    return Change(key, records.ConsumerGroupPartitionMetadataValue(topics=listed))


def member_metadata(group_id: str, member: ConsumerMember) -> Change:
    """A member is so, and wants this."""
    key = records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return Change(key, member.to_metadata())


def current_assignment(group_id: str, member: ConsumerMember) -> Change:
    """A member stands here."""
    key = records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Change(key, member.to_current())


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> Change:
    """A member is to read this."""
    listed = [records.TopicPartition(topic_id=topic, partitions=sorted(each)) for topic, each in partitions.items()]
    key = records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return Change(key, records.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed))


def assignment_epoch(group_id: str, epoch: int) -> Change:
    """The assignments are those of an epoch."""
    key = records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return Change(key, records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch))


def without_member(group_id: str, member_id: str) -> list[Change]:
    """A member is gone."""
    return [tombstone for (tombstone,) in member_tombstones(_OF_MEMBERS, group_id, [member_id])]


def without_group(group: ConsumerGroup, members: Collection[str]) -> list[Change]:
    """The group is gone, with all its members."""
    group_id = group.group_id
    current, target, metadata = member_tombstones(_OF_MEMBERS, group_id, members)
    return [
        *current,
        *target,
        Change(records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *metadata,
        Change(records.ConsumerGroupPartitionMetadataKey(group_id=group_id), None),
        Change(records.ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
