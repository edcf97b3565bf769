"""Finds expired offsets, and the keys of the tombstones that remove a group."""

from minibroker.coordinators.groups.classic.group import CONSUMER, Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.offsets import CommittedOffset, group_key
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.data_directory.names import TopicPartition


def expired_offsets(group: AnyGroup, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired (`GroupMetadata.removeExpiredOffsets`, KIP-211).

    - An empty group keeps its offsets for `retention_ms` after its last member left.
    - A stable group of consumers keeps the offsets of subscribed topics. Its other offsets expire `retention_ms`
      after the commit.
    - A modern group also keeps the offsets of subscribed topics. Its other offsets expire `retention_ms` after the
      commit, even if the group is empty.
    - The offsets of a group that never had members, whose clients only commit, expire `retention_ms` after the
      commit.

    In all cases, an offset committed with its own retention time expires after that time. An offset that an open
    transaction may replace is kept until the transaction ends.
    """
    base_ms: int | None = None
    subscribed: set[str] = set()
    if isinstance(group, ConsumerGroup):
        # Regular expressions may not be resolved yet, so include the topics of the last lookup.
        subscribed = group.subscribed_topics() | group.topics.keys()
    elif isinstance(group, StreamsGroup):
        subscribed = group.subscribed_topics()
    elif not isinstance(group, Group):  # Share groups have no committed offsets.
        return []
    elif group.protocol_type is not None and group.state is GroupState.EMPTY:
        base_ms = group.state_timestamp_ms
    elif group.protocol_type == CONSUMER and group.state is GroupState.STABLE:
        if (topics := group.subscribed_topics()) is None:
            return []
        subscribed = topics
    elif group.protocol_type is not None:
        return []

    def is_expired(offset: CommittedOffset) -> bool:
        if offset.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= offset.expire_timestamp
        return now_ms - (offset.commit_timestamp if base_ms is None else base_ms) >= retention_ms

    return [
        (topic, partition)
        for topic, partitions in group.offsets.committed.items()
        if topic not in subscribed
        for partition, offset in partitions.items()
        if is_expired(offset) and not group.offsets.is_unstable(topic, partition)
    ]


def group_keys(group: AnyGroup) -> list[bytes]:
    """Return the keys of the records that describe a group. A classic group in generation 0 has no record."""
    if isinstance(group, Group):
        return [group_key(group.group_id)] if group.generation > 0 else []
    return [change.encode_key() for change in group.records.group_tombstones(group.group_id, group.members)]
