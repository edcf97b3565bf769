"""The store of all groups and offsets in `__consumer_offsets` (`GroupMetadataManager`, `OffsetMetadataManager`).

A group and its offsets share one partition. A partition is replayed before its groups are used (`PartitionLoader`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.routing.slices import ForEach, Steps, drain, steps_of
from minibroker.config.releases import is_before
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.groups.classic.group import CONSUMER, Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.offsets import CommittedOffset, OffsetKeys, group_key, offset_record
from minibroker.coordinators.groups.registry import AnyGroup, AnyModernGroup, GroupRegistry
from minibroker.coordinators.groups.replay import GroupReplay
from minibroker.coordinators.groups.share.group import ShareGroup, state_partitions
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.coordinators.partition_loader import PartitionLoader
from minibroker_protocol.coordinator_records import encode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, CompressionCodec
from minibroker_protocol.records.record import NewRecord
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


OffsetChoice = Callable[[], Sequence[TopicPartition] | ErrorCode]
"""Returns the partitions whose offsets a group should forget in its current state, or an error if it must keep them."""

_GROUP_VERSION: Final = 3
_TOMBSTONES_PER_STEP: Final = 5_000
_TOMBSTONE_BYTES_PER_STEP: Final = 4 << 20
_KEY_OVERHEAD: Final = 64
_OFFSET_OVERHEAD: Final = 34
"""The minimum size of an offset's key and value in bytes, without the group id and the topic name."""
_RECORDS_PER_CHECK: Final = 1000
_MINUTE_MS: Final = 60_000
_SEQUENCE_OF_COMMITS: Final = 0
"""The sequence number that Kafka gives to all batches of offsets. Nothing reads it."""
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_logger = logging.getLogger(__name__)


class GroupStore(PartitionLoader[GroupReplay]):
    """All groups and their offsets.

    Args:
        on_loaded: Called with each group restored by a replay.
        on_forgotten: Called with each group that was removed or moved away, so that waiting clients get an error.
    """

    _is_loaded_in_steps = True

    def __init__(
        self, core: Core, on_loaded: Callable[[AnyGroup], None], on_forgotten: Callable[[AnyGroup], None]
    ) -> None:
        log = CoordinatorLog(
            core,
            CONSUMER_OFFSETS,
            partitions=core.config.integer("offsets.topic.num.partitions"),
            factor=core.config.integer("offsets.topic.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": str(core.config.integer("offsets.topic.segment.bytes")),
                "compression.type": "producer",
            },
            codec=CompressionCodec(core.config.integer("offsets.topic.compression.codec")),
        )
        super().__init__(core, log)
        self._on_loaded = on_loaded
        self._on_forgotten = on_forgotten
        self._registry = GroupRegistry(log)
        self._groups: Final = self._registry.by_id
        self._known_keys = self._groups
        self._deleted_topics: dict[int, set[str]] = {}  # Topics deleted before their partition was loaded.
        self._retention_ms = core.config.integer("offsets.retention.minutes") * _MINUTE_MS
        interval_ms = core.config.integer("offsets.retention.check.interval.ms")
        core.chores.every("expire-offsets", interval_ms, self._expire)

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` for a group."""
        return self.log.partition_of(group_id)

    def find(self, group_id: str) -> AnyGroup | None:
        """Return the group with this id, of any type, or None. Callers check `check_readiness` first."""
        return self._groups.get(group_id)

    def find_or_create(self, group_id: str) -> AnyGroup:
        """Return the group with this id, of any type. An unknown group is created as an empty classic group.

        Callers check `check_readiness` first.
        """
        if (group := self._groups.get(group_id)) is None:
            group = Group(group_id, self._core.clock)
            self._registry.add(group)
        return group

    def get(self, group_id: str) -> Group | None:
        """Return the classic group with this id, or None. Callers check `check_readiness` first."""
        group = self._groups.get(group_id)
        return group if isinstance(group, Group) else None

    def get_or_create(self, group_id: str) -> Group:
        """Return the classic group with this id, creating it if necessary. It can replace an empty modern group.

        Callers first check `check_readiness`, and that the group has no members of another protocol.

        Raises:
            TypeError: The group is a share group.
        """
        group = self.find_or_create(group_id)
        if isinstance(group, Group):
            return group
        if isinstance(group, ShareGroup):
            raise TypeError(f"group {group_id} is a share group")
        classic = Group(group_id, self._core.clock)
        classic.offsets = group.offsets
        if code := self.replace(classic, self.tombstones(group)):
            _logger.warning("Group %s is a classic one now; this could not be stored: %s", group_id, code.name)
        return classic

    def get_consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group with this id, or None. Callers check `check_readiness` first."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def groups(self) -> Iterable[AnyGroup]:
        """Return a tuple of the groups of all loaded partitions, so that groups can change during an iteration."""
        return tuple(self._groups.values())

    def _make_replay(self, name: str) -> GroupReplay:
        return GroupReplay(self._core.clock, name)

    def _drop_partition(self, partition: int) -> None:
        for group in self._registry.take(partition):
            self._on_forgotten(group)

    def _on_topic_lost(self) -> None:
        self._deleted_topics.clear()
        for group in self._registry.take_all():
            self._on_forgotten(group)

    def _use_replay(self, partition: int, replay: GroupReplay) -> None:
        groups = [group for group in replay.created if group.group_id not in self._groups]
        for group in groups:
            self._registry.add(group)
            for producer_id in group.offsets.pending:
                self._registry.open(producer_id, group.group_id)
        self._core.chores.run(steps_of(ForEach(groups, self._resume)), lambda: None)
        # Apply the markers that were written during the replay, because the replay has not read them.
        for producer_id, committed in replay.ended:
            self.complete_transaction(partition, producer_id, commit=committed)
        deleted_topics = self._deleted_topics.pop(partition, None)
        # The log still has offsets of deleted topics, because tombstones are written only to loaded partitions.
        if deleted_topics:
            drain(steps_of(self._forget_topics(deleted_topics, self._registry.in_partition(partition))))

    def _resume(self, group: AnyGroup) -> None:
        """Call `on_loaded` with a loaded group, unless the group has been removed in the meantime."""
        if not self.is_closed and self._groups.get(group.group_id) is group:
            self._on_loaded(group)

    def save_group(self, group: Group) -> ErrorCode:
        """Write the record of a classic group (`storeGroup`)."""
        return self._write(group.group_id, [self.record_of(group)])

    def record_of(self, group: Group) -> NewRecord:
        """Return the record of a classic group in the version written by Kafka 3.9."""
        value = encode_versioned(group.to_value(), _GROUP_VERSION)
        return NewRecord(group_key(group.group_id), value, self.now_ms())

    def save_changes(
        self, group: AnyModernGroup, changes: Iterable[Change], before: Iterable[NewRecord] = ()
    ) -> ErrorCode:
        """Write the records in `before`, write the changes to a modern group, and then apply the changes.

        A new group is added to the store. It replaces a classic group with the same id.
        """
        all_changes, now_ms = list(changes), self.now_ms()
        if not (code := self._write(group.group_id, [*before, *(item.encode(now_ms) for item in all_changes)])):
            for change in all_changes:
                group.apply(*change)
            self._registry.add(group)
        return code

    def replace(self, group: Group, records: Iterable[NewRecord]) -> ErrorCode:
        """Write records that turn a consumer group into a classic group, and replace the group."""
        if not (code := self._write(group.group_id, list(records))):
            self._registry.add(group)
        return code

    def _write(self, group_id: str, records: list[NewRecord]) -> ErrorCode:
        try:
            if records:
                self._append(self.partition_of(group_id), records)
        except CoordinatorLogError as error:
            return _write_error(group_id, error)
        return ErrorCode.NONE

    def check_size(self, group_id: str, size: int) -> ErrorCode:
        """Return the error for group records that would have at least `size` bytes, or NONE if they fit.

        Called before the records are built.
        """
        try:
            self.log.check_size(size)
        except CoordinatorLogError as error:
            return _write_error(group_id, error)
        return ErrorCode.NONE

    def tombstones(self, group: AnyGroup) -> list[NewRecord]:
        """Return the tombstones of a group, but not of its offsets."""
        now_ms = self.now_ms()
        return [NewRecord(key, None, now_ms) for key in group_keys(group)]

    def commit(
        self,
        group: AnyGroup,
        count: int,
        offsets: Iterable[tuple[TopicPartition, CommittedOffset]],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> ErrorCode:
        """Write `count` offsets and return NONE, or the error of a failed write (`storeOffsets`).

        If a producer id is given, the offsets take effect only when the producer's transaction is committed.
        """
        if producer_id < 0:  # A TxnOffsetCommit may have no producer id if transactions are not verified.
            producer_id, producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        group_id = group.group_id
        try:
            self.log.check_size(count * (len(group_id) + _OFFSET_OVERHEAD))
            all_offsets = list(offsets)
            batch = self.log.build(
                self._offset_records(group_id, all_offsets),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=_SEQUENCE_OF_COMMITS,
            )
            first = self.log.append_batch(self.partition_of(group_id), batch)
        except CoordinatorLogError as error:
            return _commit_error(error)
        self.update_topic()
        written = ((key, offset.at(first)) for key, offset in all_offsets)
        if producer_id == NO_PRODUCER_ID:
            group.offsets.commit(written)
        else:
            group.offsets.commit_pending(producer_id, written)
            self._registry.open(producer_id, group_id)
        return ErrorCode.NONE

    def _offset_records(
        self, group_id: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]
    ) -> list[NewRecord]:
        """Return the records of offsets.

        Raises:
            CoordinatorLogError: The records are too large for a batch.
        """
        now_ms = self.now_ms()
        keys = OffsetKeys(group_id)
        size = 0
        records: list[NewRecord] = []
        for key, offset in offsets:
            record = offset_record(keys.of(key), offset, now_ms)
            size += len(record.key or b"") + len(record.value or b"")
            records.append(record)
            if not len(records) % _RECORDS_PER_CHECK:
                self.log.check_size(size)
        return records

    def has_ongoing_transaction(self, group_id: str, producer_id: int, producer_epoch: int) -> bool:
        """Return whether the producer has an open transaction of this epoch in the group's partition.

        A transaction of an earlier epoch that still needs its marker does not count.
        """
        if (partition := self.log.partition(self.partition_of(group_id))) is None:
            return False
        try:
            producer = partition.log.producers.active.get(producer_id)
        except MAPPED:
            return False
        return (
            producer is not None
            and producer.current_txn_first_offset >= 0
            and producer.producer_epoch == producer_epoch
        )

    def complete_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """End the producer's transaction after its marker was written to a partition of `__consumer_offsets`."""
        if (loading := self._loading.get(partition)) is not None:
            loading.replay.ended.append((producer_id, commit))
            return
        for group in self._registry.close(producer_id, partition):
            group.offsets.complete(producer_id, commit=commit)

    def forget_deleted_topics(self, names: Iterable[str]) -> ForEach[None]:
        """Remove the offsets of deleted topics, or all groups if `__consumer_offsets` was deleted."""
        self.update_topic()
        if self.log.topic is None:
            return ForEach((), self._resume)
        deleted = set(names)
        for partition in range(self.log.partition_count):
            if not self.is_loaded(partition):
                self._deleted_topics.setdefault(partition, set()).update(deleted)
        return self._forget_topics(deleted, self.groups())

    def _forget_topics(self, names: set[str], groups: Iterable[AnyGroup]) -> ForEach[None]:
        # Before Kafka 4.0, a classic group was removed together with its last offset. Since then, the next expiration
        # check removes the group.
        removes_empty = is_before(self._core.config.release, "4.0")

        def forget(group: AnyGroup) -> Any:
            if isinstance(group, ShareGroup):
                self._forget_states(group)
            if self._groups.get(group.group_id) is not group or not group.offsets.of_topics(names):
                return None
            of_topics = partial(group.offsets.of_topics, names)
            return self.forget(group, of_topics, removes_empty=isinstance(group, Group) and removes_empty)

        return ForEach(groups, forget)

    def _forget_states(self, group: ShareGroup) -> None:
        """Remove deleted topics from a share group. The share coordinator deletes their states itself."""
        states = group.partitions
        deleted = [
            topic
            for topic in {*states.initializing, *states.initialized, *states.deleting}
            if self._core.topics.with_id(topic) is None
        ]
        if deleted:
            self.save_changes(group, [state_partitions(group.group_id, states.without(deleted))])

    def _expire(self) -> Iterator[None]:
        """Remove expired offsets and empty groups (`cleanupGroupMetadata`)."""
        return steps_of(ForEach(self.groups(), self._expire_offsets))

    def _expire_offsets(self, group: AnyGroup) -> Any:
        if self._groups.get(group.group_id) is not group or isinstance(group, ShareGroup):  # Share groups never expire.
            return None
        return self.forget(group, lambda: expired_offsets(group, self.now_ms(), self._retention_ms))

    def forget(
        self, group: AnyGroup, choose: OffsetChoice, *, removes_group: bool = False, removes_empty: bool = True
    ) -> Steps[ErrorCode]:
        """Write tombstones for offsets, and then remove the offsets.

        If a tombstone cannot be written, its offset is kept.

        Offsets are removed in steps of at most 5,000. `choose` is called before each step.

        Args:
            group: The group.
            choose: Returns the partitions to forget, or an error.
            removes_group: Whether to remove the group in any case.
            removes_empty: Whether to remove an empty group with its last offset.
        """
        group_id = group.group_id
        limit = max(1, min(_TOMBSTONES_PER_STEP, _TOMBSTONE_BYTES_PER_STEP // (len(group_id) + _KEY_OVERHEAD)))
        while True:
            partitions = choose()
            if isinstance(partitions, ErrorCode):
                return partitions
            removed = partitions[:limit]
            is_last = len(removed) == len(partitions)
            dies = removes_group or (removes_empty and group.is_empty and not group.offsets.has_more_than(removed))
            keys = list(map(OffsetKeys(group_id).of, removed))
            if is_last and dies:
                keys += group_keys(group)
            now_ms = self.now_ms()
            try:
                for batch in self.log.tombstone_batches(keys):
                    self._append(self.partition_of(group_id), [NewRecord(key, None, now_ms) for key in batch])
            except CoordinatorLogError as error:
                _logger.error("The deletions of group %s cannot be written down: %s", group_id, error)  # noqa: TRY400 - the message is enough
                return _commit_error(error)
            group.offsets.remove(removed)
            if is_last:
                if dies:
                    group.die()
                    self._registry.discard(group)
                    self._on_forgotten(group)
                return ErrorCode.NONE
            yield


def _write_error(group_id: str, error: CoordinatorLogError) -> ErrorCode:
    if error.code in _TOO_LARGE:
        _logger.error("Group %s cannot be stored: %s", group_id, error)
    return error.client_code


def _commit_error(error: CoordinatorLogError) -> ErrorCode:
    """Return the error for a client whose offsets could not be written (`maybeConvertOffsetCommitError`)."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error.code in _TOO_LARGE else error.client_code
