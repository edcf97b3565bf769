"""The offsets of one group, committed or pending in open transactions, and the keys and records of offsets.

This is the part of Kafka's `GroupMetadata` that handles offsets. It does not use the log: `GroupStore` writes the
records first, and then applies them to the objects of this module.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from minibroker_protocol.coordinator_records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_versioned,
)
from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.data_directory.names import TopicPartition

_OFFSET_KEY_VERSION: Final = 1
_OFFSET_VERSION: Final = 3
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
"""The only version with an expiry time. It has no leader epoch."""
_PARTITION_BYTES: Final = 4
_GROUP_KEY_VERSION: Final = 2


class CommittedOffset(NamedTuple):
    """A committed offset. Times are in milliseconds.

    Attributes:
        leader_epoch: The leader epoch, or -1 if the client sent none.
        expire_timestamp: The expiry time requested by the client (OffsetCommit v2-4), or -1.
        log_offset: The position in `__consumer_offsets` of the record with this offset. The later of two records
            wins.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    log_offset: int = -1

    def at(self, log_offset: int) -> "CommittedOffset":
        """Return a copy of this committed offset whose record is at `log_offset`."""
        return CommittedOffset(*self[:5], log_offset)  # This is faster than `_replace`.


class GroupOffsets:
    """The offsets of one group.

    Attributes:
        committed: The committed offsets by topic and partition, without empty topics.
        pending: The offsets that open transactions will commit, by producer id.
    """

    __slots__ = ("_unstable", "committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, dict[int, CommittedOffset]] = {}
        self.pending: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        self._unstable: set[TopicPartition] | None = set()  # The partitions in `pending`, or None if outdated.

    def __bool__(self) -> bool:
        """Return whether any offset is committed or pending."""
        return bool(self.committed or self.pending)

    def __iter__(self) -> Iterator[TopicPartition]:
        """Iterate over each (topic, partition) with a committed offset."""
        return ((topic, partition) for topic, partitions in self.committed.items() for partition in partitions)

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition, or None."""
        partitions = self.committed.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Return whether an open transaction may change a partition's offset (KIP-447)."""
        if self._unstable is None:
            self._unstable = set().union(*self.pending.values())
        return (topic, partition) in self._unstable

    def commit(self, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]) -> None:
        """Apply committed offsets whose records have been written to the log."""
        for (topic, partition), offset in offsets:
            self.committed.setdefault(topic, {})[partition] = offset

    def commit_pending(self, producer_id: int, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]) -> None:
        """Apply offsets that were written in an open transaction.

        The offsets take effect when the producer commits the transaction.
        """
        self.pending.setdefault(producer_id, {}).update(offsets)
        self._unstable = None

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """End the producer's transaction. If a partition has two offsets, the one written later to the log wins."""
        pending_offsets = self.pending.pop(producer_id, None)
        self._unstable = None
        if not commit or not pending_offsets:
            return
        for key, offset in pending_offsets.items():
            committed = self.get(*key)
            if committed is None or committed.log_offset < offset.log_offset:
                self.commit([(key, offset)])

    def known(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions with a committed or pending offset, without duplicates."""
        return [key for key in dict.fromkeys(partitions) if self.get(*key) is not None or self.is_unstable(*key)]

    def everything(self) -> list[TopicPartition]:
        """Return all partitions with a committed or pending offset."""
        return list(dict.fromkeys(chain(self, *self.pending.values())))

    def of_topics(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return those partitions of the given topics that have a committed or pending offset."""
        names = topics if isinstance(topics, set) else set(topics)
        # After a topic is deleted, most groups take this fast path.
        if not self.pending and self.committed.keys().isdisjoint(names):
            return []
        committed = ((topic, partition) for topic in names for partition in self.committed.get(topic, ()))
        pending = (key for offsets in self.pending.values() for key in offsets if key[0] in names)
        return list(dict.fromkeys(chain(committed, pending)))

    def has_more_than(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether any partition other than these has a committed or pending offset."""
        return sum(map(len, self.committed.values())) > len(partitions) or len(self.everything()) > len(partitions)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Remove the committed and pending offsets of some partitions."""
        for topic, partition in partitions:
            if (committed := self.committed.get(topic)) is not None:
                committed.pop(partition, None)
                if not committed:
                    del self.committed[topic]
        if self.pending:
            removed = frozenset(partitions)
            remaining = (
                (producer_id, {key: offset for key, offset in offsets.items() if key not in removed})
                for producer_id, offsets in self.pending.items()
            )
            self.pending = {producer_id: offsets for producer_id, offsets in remaining if offsets}
            self._unstable = None


def offset_record(key: bytes, offset: CommittedOffset, now_ms: int) -> NewRecord:
    """Return the record of a committed offset in the version written by Kafka 3.9."""
    if offset.expire_timestamp == NO_TIMESTAMP:
        version, leader_epoch = _OFFSET_VERSION, offset.leader_epoch
    else:
        version, leader_epoch = _OFFSET_VERSION_WITH_EXPIRY, -1
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=offset.expire_timestamp,
    )
    return NewRecord(key, encode_versioned(value, version), now_ms)


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group's record."""
    return encode_versioned(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


class OffsetKeys:
    """The keys of a group's offset records. Keys of the same topic differ only in their last bytes."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._prefixes: dict[str, bytes] = {}

    def of(self, key: TopicPartition) -> bytes:
        """Return the key of a partition's offset record."""
        topic, partition = key
        if (prefix := self._prefixes.get(topic)) is None:
            first = OffsetCommitKey(group=self._group_id, topic=topic, partition=0)
            prefix = self._prefixes[topic] = encode_versioned(first, _OFFSET_KEY_VERSION)[:-_PARTITION_BYTES]
        return prefix + partition.to_bytes(_PARTITION_BYTES, "big")
