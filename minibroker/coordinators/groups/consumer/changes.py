"""The records of a consumer group, as they are written (Kafka's `CoordinatorRecordHelpers`)."""

from collections.abc import Collection, Mapping
from typing import Final

from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.consumer.member import ConsumerMember
from minibroker.coordinators.groups.modern.changes import Change, member_tombstones
from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker_protocol.coordinator_records import consumer_groups as records

_OF_MEMBERS: Final = (
    records.ConsumerGroupCurrentMemberAssignmentKey,
    records.ConsumerGroupTargetAssignmentMemberKey,
    records.ConsumerGroupMemberMetadataKey,
)
"""The keys of a member's records, in the order in which Kafka insists on their tombstones."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Change:
    """The group has come to an epoch, with topics of this hash; 0 before Kafka 4.1."""
    key = records.ConsumerGroupMetadataKey(group_id=group_id)
    return Change(key, records.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def subscribed_topics(group_id: str, topics: Mapping[str, TopicMetadata]) -> Change:
    """Return the record of the topics that the members subscribe to, as before Kafka 4.1."""
    listed = [
        records.TopicMetadata(
            topic_id=topic.topic_id,
            topic_name=name,
            num_partitions=topic.partitions,
            partition_metadata=[
                records.PartitionMetadata(partition=index, racks=list(racks))
                for index, racks in enumerate(topic.racks)
                if racks
            ],
        )
        for name, topic in topics.items()
    ]
    key = records.ConsumerGroupPartitionMetadataKey(group_id=group_id)
    return Change(key, records.ConsumerGroupPartitionMetadataValue(topics=listed))


def no_subscribed_topics(group_id: str) -> Change:
    """The record of topics that an earlier Kafka has left is of no use any more."""
    return Change(records.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


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


def assignment_epoch(group_id: str, epoch: int, made_ms: int = 0) -> Change:
    """The assignments are those of an epoch, and were made at this time; 0 if another may follow at once."""
    key = records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=made_ms)
    return Change(key, value)


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
