"""The records of a streams group, as they are written (Kafka's `StreamsCoordinatorRecordHelpers`)."""

from collections.abc import Collection, Mapping
from typing import Final

from minibroker.coordinators.groups.modern.changes import Change, member_tombstones
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.coordinators.groups.streams.member import StreamsMember
from minibroker.coordinators.groups.streams.tasks import Tasks, TaskSets
from minibroker_protocol.coordinator_records import streams_groups as records
from minibroker_protocol.java_text import in_java_order

_OF_MEMBERS: Final = (
    records.StreamsGroupCurrentMemberAssignmentKey,
    records.StreamsGroupTargetAssignmentMemberKey,
    records.StreamsGroupMemberMetadataKey,
)
"""The keys of a member's records, in the order in which Kafka insists on their tombstones."""


def group_epoch(
    group: StreamsGroup, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
) -> Change:
    """The group has come to an epoch, with topics of this hash."""
    listed = [records.LastAssignmentConfig(key=key, value=value) for key, value in sorted(configs.items())]
    stored, failed = group.description_epochs
    value = records.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=listed,
        stored_description_topology_epoch=stored,
        failed_description_topology_epoch=failed,
    )
    return Change(records.StreamsGroupMetadataKey(group_id=group.group_id), value)


def next_epoch(group: StreamsGroup) -> Change:
    """The group has come to its next epoch, and nothing of it has changed."""
    return group_epoch(group, group.epoch + 1, group.metadata_hash, group.validated_epoch, group.configs)


def topology(group_id: str, value: records.StreamsGroupTopologyValue) -> Change:
    """The topology of the application is this."""
    return Change(records.StreamsGroupTopologyKey(group_id=group_id), value)


def member_metadata(group_id: str, member: StreamsMember) -> Change:
    """A member is so."""
    key = records.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return Change(key, member.to_metadata())


def current_assignment(group_id: str, member: StreamsMember) -> Change:
    """A member stands here."""
    key = records.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Change(key, member.to_current())


def target_assignment(group_id: str, member_id: str, tasks: Tasks) -> Change:
    """A member is to run this."""
    key = records.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = records.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_listed(tasks.active),
        standby_tasks=_listed(tasks.standby),
        warmup_tasks=_listed(tasks.warmup),
    )
    return Change(key, value)


def _listed(tasks: TaskSets) -> list[records.TargetTaskIds]:
    return [
        records.TargetTaskIds(subtopology_id=each, partitions=sorted(indexes)) for each, indexes in in_java_order(tasks)
    ]


def assignment_epoch(group_id: str, epoch: int, now_ms: int) -> Change:
    """The assignments are those of an epoch, and were made now."""
    key = records.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = records.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return Change(key, value)


def without_member(group_id: str, member_id: str) -> list[Change]:
    """The records of a member that has left."""
    return [tombstone for (tombstone,) in member_tombstones(_OF_MEMBERS, group_id, [member_id])]


def taken_over(group: StreamsGroup, known: StreamsMember, member: StreamsMember) -> list[Change]:
    """A static member has come back, under another id perhaps (`replaceStreamsMember`)."""
    return [
        *without_member(group.group_id, known.member_id),
        member_metadata(group.group_id, member),
        target_assignment(group.group_id, member.member_id, group.target_of(known.member_id)),
        current_assignment(group.group_id, member),
    ]


def without_group(group_id: str, members: Collection[str]) -> list[Change]:
    """The group is gone, with all its members."""
    current, target, metadata = member_tombstones(_OF_MEMBERS, group_id, members)
    return [
        *current,
        *target,
        Change(records.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *metadata,
        Change(records.StreamsGroupMetadataKey(group_id=group_id), None),
        Change(records.StreamsGroupTopologyKey(group_id=group_id), None),
    ]
