"""The replay of a partition of `__consumer_offsets`, from the start to the end of its log.

This is Kafka's `GroupMetadataManager.doLoadGroupsAndOffsets`. Most records are overwritten by later records, so keys
and values are kept as bytes until all records are read. Only the remaining records are decoded.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, NamedTuple

from minibroker.clock import Clock
from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.modern.group import ModernGroup
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.coordinators.partition_loader import PartitionReplay
from minibroker_protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_versioned,
    read_group_key,
)
from minibroker_protocol.coordinator_records.consumer_groups import CONSUMER_GROUP_RECORDS, ConsumerGroupMetadataKey
from minibroker_protocol.coordinator_records.share_groups import (
    SHARE_GROUP_RECORDS,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
)
from minibroker_protocol.coordinator_records.streams_groups import STREAMS_GROUP_RECORDS, StreamsGroupMetadataKey
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import Batch, RecordBatch
from minibroker_protocol.records.header import control_type
from minibroker_protocol.schema import schema_of
from minibroker_storage.data_directory.names import TopicPartition

_GROUP_METADATA_KEY: Final = b"\x00\x02"
_MODERN_GROUPS: Final = {
    schema_of(key).versions.first: (key, value)
    for key, value in (*CONSUMER_GROUP_RECORDS, *SHARE_GROUP_RECORDS, *STREAMS_GROUP_RECORDS)
}
_GROUP_CREATING_KEYS: Final = (
    ConsumerGroupMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    StreamsGroupMetadataKey,
)
"""The keys that create a group. Records of a group without any of them are ignored."""
_SHARE_KEYS: Final = {key for key, _ in SHARE_GROUP_RECORDS}
_STREAMS_KEYS: Final = {key for key, _ in STREAMS_GROUP_RECORDS}


class _LatestRecord(NamedTuple):
    """A record's offset in the log and its value, or None for a tombstone."""

    log_offset: int
    value: bytes | None


class Replay(PartitionReplay):
    """The state restored from the records of a partition.

    Unreadable records and records of unknown types are logged and skipped.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._latest: dict[bytes, _LatestRecord] = {}
        self._pending: dict[int, dict[bytes, _LatestRecord]] = {}
        #: All groups, with the record and the offsets of each. Groups without members may have no record.
        self.groups: dict[str, tuple[GroupMetadataValue | None, GroupOffsets]] = {}
        #: The records of modern groups, in any order.
        self.modern_groups: dict[str, list[Change]] = {}

    def _read(self, batch: Batch) -> None:
        target = self._latest
        if isinstance(batch, RecordBatch):
            header = batch.header
            if header.is_control:
                self._end_transaction(batch)
                return
            if header.is_transactional:
                target = self._pending.setdefault(header.producer_id, {})
        for record in batch:
            if record.key is None:
                self._warn(f"the record at offset {record.offset} has no key")
            elif target is self._latest or not record.key.startswith(_GROUP_METADATA_KEY):
                target[record.key] = _LatestRecord(record.offset, record.value)
            else:  # As in Kafka, a group's record takes effect immediately, even inside a transaction.
                self._latest[record.key] = _LatestRecord(record.offset, record.value)

    def _end_transaction(self, batch: RecordBatch) -> None:
        pending = self._pending.pop(batch.header.producer_id, None)
        if not pending or not any(control_type(record.key)[0] == "COMMIT" for record in batch):
            return
        for key, written in pending.items():
            latest = self._latest.get(key)
            if latest is None or latest.log_offset < written.log_offset:
                self._latest[key] = written

    def finish(self) -> ForEach[None]:
        """Decode the loaded records into `groups` and `modern_groups`, one record at a time."""
        committed = ((key, written, None) for key, written in self._latest.items() if written.value is not None)
        pending = (
            (key, written, producer_id)
            for producer_id, records in self._pending.items()
            for key, written in records.items()
            if written.value is not None and not self._is_deleted_since(key, written)
        )
        return ForEach(chain(committed, pending), lambda record: self._decode(*record), self._add_modern_groups)

    def _add_modern_groups(self, _: object) -> None:
        for group_id, changes in tuple(self.modern_groups.items()):
            if any(isinstance(change.key, _GROUP_CREATING_KEYS) for change in changes):
                self.groups.setdefault(group_id, (None, GroupOffsets()))
            else:
                del self.modern_groups[group_id]

    def _is_deleted_since(self, key: bytes, pending: _LatestRecord) -> bool:
        """Return whether a later tombstone removes a pending offset, even if the offset's transaction is committed."""
        latest = self._latest.get(key)
        return latest is not None and latest.value is None and latest.log_offset > pending.log_offset

    def _decode(self, raw_key: bytes, written: _LatestRecord, producer_id: int | None) -> None:
        value = written.value or b""
        try:
            key = read_group_key(raw_key)
            if isinstance(key, OffsetCommitKey):
                self._add_offset(key, decode_versioned(OffsetCommitValue, value), written.log_offset, producer_id)
            elif isinstance(key, GroupMetadataKey):
                metadata = decode_versioned(GroupMetadataValue, value)
                _, offsets = self.groups.get(key.group, (None, None))
                self.groups[key.group] = (metadata, offsets or GroupOffsets())
            elif (classes := _MODERN_GROUPS.get(key.version)) is not None:
                change = Change(decode_versioned(classes[0], raw_key), decode_versioned(classes[1], value))
                self.modern_groups.setdefault(change.key.group_id, []).append(change)
            else:
                self._warn(f"keys of version {key.version} are unknown")
        except DecodeError as error:
            self._warn(f"the record at offset {written.log_offset} cannot be read: {error}")

    def _add_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue, log_offset: int, producer_id: int | None
    ) -> None:
        offset = CommittedOffset(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp, log_offset
        )
        if (group := self.groups.get(key.group)) is None:
            group = self.groups[key.group] = (None, GroupOffsets())
        offsets = group[1]
        entry: list[tuple[TopicPartition, CommittedOffset]] = [((key.topic, key.partition), offset)]
        if producer_id is not None:
            offsets.commit_pending(producer_id, entry)
            return
        # An earlier record of the same partition may have a key of another version.
        earlier = offsets.get(key.topic, key.partition)
        if earlier is None or earlier.log_offset < offset.log_offset:
            offsets.commit(entry)


class GroupReplay(Replay):
    """The replay of a loading partition: its groups, and the transactions that ended during the replay."""

    def __init__(self, clock: Clock, name: str) -> None:
        super().__init__(name)
        self._clock = clock
        self.created: list[AnyGroup] = []
        self.ended: list[tuple[int, bool]] = []  # Pairs of a producer id and whether its transaction was committed.

    def finish(self) -> ForEach[None]:
        """Decode the loaded records, and create the groups in `created`."""
        work = super().finish()
        return ForEach((work,), lambda decode: decode, lambda _: ForEach[None](self.groups.items(), self._make_group))

    def _make_group(self, group: tuple[str, tuple[GroupMetadataValue | None, GroupOffsets]]) -> None:
        group_id, (value, offsets) = group
        if (changes := self.modern_groups.get(group_id)) is not None:
            self.created.append(self._restore_group(group_id, changes, offsets))
            return
        new_group = Group(group_id, self._clock)
        new_group.offsets = offsets
        if value is not None:
            new_group.restore(value)
        self.created.append(new_group)

    def _restore_group(self, group_id: str, changes: Iterable[Change], offsets: GroupOffsets) -> AnyGroup:
        """Return the modern group restored from its records."""
        kinds: set[type[Any]] = {type(change.key) for change in changes}
        group: ModernGroup[Any, Any]
        if kinds & _SHARE_KEYS:
            group = ShareGroup(group_id, self._clock)
        elif kinds & _STREAMS_KEYS:
            group = StreamsGroup(group_id, offsets)
        else:
            group = ConsumerGroup(group_id, offsets)
        for change in changes:
            group.apply(*change)
        return group
