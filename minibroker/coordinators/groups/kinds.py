"""The types of groups: classic (members assign), consumer, share and streams (the coordinator assigns)."""

from collections.abc import Iterable

from minibroker.clock import Clock
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker_protocol.coordinator_records.share_groups import SHARE_GROUP_RECORDS
from minibroker_protocol.coordinator_records.streams_groups import STREAMS_GROUP_RECORDS

ModernGroup = ConsumerGroup | ShareGroup | StreamsGroup
"""A group whose coordinator assigns; it changes by its records."""
AnyGroup = Group | ModernGroup
"""A group of any kind."""
_OF_SHARE_GROUPS = tuple(key for key, _ in SHARE_GROUP_RECORDS)
_OF_STREAMS_GROUPS = tuple(key for key, _ in STREAMS_GROUP_RECORDS)


def restored(group_id: str, changes: Iterable[Change], offsets: GroupOffsets, clock: Clock) -> ModernGroup:
    """The group that records amount to."""
    listed = list(changes)
    group: ModernGroup
    if any(isinstance(change.key, _OF_SHARE_GROUPS) for change in listed):
        group = ShareGroup(group_id, clock)
    elif any(isinstance(change.key, _OF_STREAMS_GROUPS) for change in listed):
        group = StreamsGroup(group_id, offsets)
    else:
        group = ConsumerGroup(group_id, offsets)
    for change in listed:
        group.apply(*change)
    return group
