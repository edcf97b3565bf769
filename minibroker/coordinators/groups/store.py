"""The store of all groups and offsets in `__consumer_offsets` (`GroupMetadataManager`, `OffsetMetadataManager`).

A group and its offsets are in one partition. A partition is replayed before anything is done with its groups
(`PartitionLoader`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from minibroker.cluster.node import Node
from minibroker.config.keys import LONG_MAX
from minibroker.config.releases import is_before
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.expiry import expired_offsets
from minibroker.coordinators.groups.forgetting import Choice, find, group_keys, prepare
from minibroker.coordinators.groups.group_records import group_record, offset_record
from minibroker.coordinators.groups.kinds import AnyGroup, ModernGroup
from minibroker.coordinators.groups.known import KnownGroups
from minibroker.coordinators.groups.loading import Loading
from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.offsets import CommittedOffset
from minibroker.coordinators.groups.share.changes import state_partitions
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.coordinators.partition_loader import PartitionLoader
from minibroker.core import Core
from minibroker.support.error_mapping import MAPPED
from minibroker.support.slices import Steps, drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, CompressionCodec, NewRecord
from minibroker_storage.data_directory.names import TopicPartition

_OFFSETS_BY_STEP: Final = 100
_GROUPS_BY_STEP: Final = 50
_MINUTE_MS: Final = 60_000
_SEQUENCE_OF_COMMITS: Final = 0
"""The sequence that Kafka gives every batch of offsets; nothing reads it."""
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Kafka's error for the client after a failed append (`GroupMetadataManager.appendForGroup`)."""
_logger = logging.getLogger(__name__)


def _nothing(_: AnyGroup) -> None:
    pass


class GroupStore:
    """The groups, classic ones and those of the consumer protocol.

    Args:
        make_group: makes an empty classic group of a name.
        on_loaded: called with each group that a replay has restored.
        on_forgotten: called with each group that moved away; its clients have to find the coordinator again.
    """

    def __init__(
        self,
        core: Core,
        make_group: Callable[[str], Group],
        on_loaded: Callable[[AnyGroup], None] = _nothing,
        on_forgotten: Callable[[AnyGroup], None] = _nothing,
    ) -> None:
        self._core = core
        self._make_group = make_group
        self._on_loaded = on_loaded
        self._on_forgotten = on_forgotten
        self.log = CoordinatorLog(
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
        self._loader = PartitionLoader(
            core,
            self.log,
            partial(Loading, make_group, core.clock),
            self._on_replayed,
            self._on_topic_lost,
            is_awaited=True,
        )
        self._known = KnownGroups(self.log)
        self._groups: Final = self._known.by_id
        self._owed: dict[int, set[str]] = {}  # topics that were deleted before a partition was loaded
        self._retention_ms = core.config.integer("offsets.retention.minutes") * _MINUTE_MS
        interval_ms = core.config.integer("offsets.retention.check.interval.ms")
        core.chores.every("expire-offsets", interval_ms, self._expire)

    # The groups

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group is in."""
        return self.log.partition_of(group_id)

    def find(self, group_id: str) -> AnyGroup | None:
        """The group, if it is known, of whatever kind. Ask for `readiness` before."""
        return self._groups.get(group_id)

    def find_or_create(self, group_id: str) -> AnyGroup:
        """The group; an unknown one is created as an empty classic group. Check `readiness` first."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._make_group(group_id)
            self._known.add(group)
        return group

    def get(self, group_id: str) -> Group | None:
        """The classic group, if it is known. Check `readiness` first."""
        group = self._groups.get(group_id)
        return group if isinstance(group, Group) else None

    def get_or_create(self, group_id: str) -> Group:
        """The classic group, made empty if need be; it takes the place of an empty one whose coordinator assigned.

        Ask for `readiness` before, and whether there are members of the other kind.
        """
        group = self.find_or_create(group_id)
        if isinstance(group, Group):
            return group
        if isinstance(group, ShareGroup):
            raise TypeError(f"group {group_id} is a share group")
        classic = self._make_group(group_id)
        classic.offsets = group.offsets
        code = self.replace(classic, self.tombstones(group))
        if code:
            _logger.warning("Group %s is a classic one now; this could not be stored: %s", group_id, code.name)
        return classic

    def get_consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group of the consumer protocol, if it is known. Ask for `readiness` before."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def groups(self) -> Iterable[AnyGroup]:
        """The groups of all partitions that are loaded; they may come and go while you look."""
        return tuple(self._groups.values())

    def classic_groups(self) -> Iterable[Group]:
        """As `groups`, the classic ones alone."""
        return [group for group in self._groups.values() if isinstance(group, Group)]

    def consumer_groups(self) -> Iterable[ConsumerGroup]:
        """As `groups`, those of the consumer protocol alone."""
        return [group for group in self._groups.values() if isinstance(group, ConsumerGroup)]

    def share_groups(self) -> Iterable[ShareGroup]:
        """As `groups`, share groups alone."""
        return [group for group in self._groups.values() if isinstance(group, ShareGroup)]

    @property
    def is_loading(self) -> bool:
        """Whether there are groups that `groups` does not have yet."""
        return self._loader.is_loading

    # Loading

    def readiness(self, group_id: str, node: Node | None = None) -> ErrorCode:
        """May a request for this group be served? See `PartitionLoader.readiness`."""
        return self._loader.readiness(group_id, node, self._groups)  # groups are known when their partition is

    def awaited(self, group_id: str, node: Node | None) -> Iterator[None]:
        """Steps that load a group, for a request that can wait. See `PartitionLoader.awaited`."""
        return self._loader.awaited(group_id, node)

    def load_all(self) -> None:
        """Load all partitions, one after the other, beside the requests."""
        self._loader.load_all()

    def leader_moved(self, partition: int) -> None:
        """Another node coordinates the groups of a partition.

        It reads the log although it is in the same process: what members waited for is gone, as in Kafka.
        """
        # Before the reload: no request may see groups of the old coordinator beside a log that is still being read.
        for group in self._known.take(partition):
            self._on_forgotten(group)
        self._loader.reload(partition)

    def _on_topic_lost(self) -> None:
        self._owed.clear()
        for group in self._known.take_all():
            self._on_forgotten(group)

    def _on_replayed(self, partition: int, loading: Loading) -> None:
        made = [group for group in loading.made if group.group_id not in self._groups]
        self._known.add_all(made)
        for group in made:
            for producer_id in group.offsets.pending:
                self._known.open(producer_id, group.group_id)
        self._core.chores.run(self._resume(made), lambda: None)
        # Markers that came while the partition was read: the replay has not seen them.
        for producer_id, committed in loading.ended:
            self.complete_transaction(partition, producer_id, commit=committed)
        owed = self._owed.pop(partition, None)
        # The log still has their offsets: no tombstones are written into a partition that is not loaded.
        if owed:
            drain(self._forget_topics(owed, self._known.in_partition(partition)))

    def _resume(self, groups: Iterable[AnyGroup]) -> Iterator[None]:
        """Tell of each group that it was loaded, unless it has gone meanwhile."""
        for number, group in enumerate(groups, 1):
            if self._loader.is_closed:
                return
            if self._groups.get(group.group_id) is group:
                self._on_loaded(group)
            if not number % _GROUPS_BY_STEP:
                yield

    # Writing

    def _append(self, group_id: str, batch: bytearray) -> int:
        """Write; the offset of the first record. CoordinatorLogError."""
        first = self.log.append_batch(self.log.partition_of(group_id), batch)
        self._loader.look_at_topic()
        return first

    def save_group(self, group: Group) -> ErrorCode:
        """Write what describes the group (`storeGroup`)."""
        return self._write(group.group_id, [self.record_of(group)])

    def record_of(self, group: Group) -> NewRecord:
        """The record that describes a classic group."""
        return group_record(group.group_id, group.to_value(), self._core.clock.now_ms())

    def save_changes(
        self, group: ModernGroup, changes: Iterable[Change], before: Iterable[NewRecord] = ()
    ) -> ErrorCode:
        """Write what changes in a consumer or share group, `before` it other records, and let it count.

        A group that is not known yet is from then on, in the place of a classic one.
        """
        listed = list(changes)
        now_ms = self._core.clock.now_ms()
        code = self._write(group.group_id, [*before, *(each.encode(now_ms) for each in listed)])
        if not code:
            for change in listed:
                group.apply(*change)
            self._known.add(group)
        return code

    def save_target(
        self, group: ModernGroup, changed: Mapping[str, Any], records: Iterable[NewRecord], done: Change
    ) -> ErrorCode:
        """Write the records of a target (`changed`), and that of its epoch (`done`), and let it count."""
        code = self._write(group.group_id, [*records, done.encode(self.now_ms())])
        if not code:
            group.target.update(changed)
            group.apply(*done)
        return code

    def now_ms(self) -> int:
        """The time that records are stamped with."""
        return self._core.clock.now_ms()

    def replace(self, group: Group, records: Iterable[NewRecord]) -> ErrorCode:
        """Write records, by which a classic group takes the place of one of the consumer protocol."""
        code = self._write(group.group_id, list(records))
        if not code:
            self._known.add(group)
        return code

    def _write(self, group_id: str, records: list[NewRecord]) -> ErrorCode:
        try:
            if records:
                self.log.append(self.log.partition_of(group_id), records)
                self._loader.look_at_topic()
        except CoordinatorLogError as error:
            if error.code in _TOO_LARGE:
                _logger.error("Group %s cannot be stored: %s", group_id, error)  # noqa: TRY400 - it says all
                return ErrorCode.UNKNOWN_SERVER_ERROR
            return _coordinator_code(error.code)
        return ErrorCode.NONE

    def tombstones(self, group: AnyGroup) -> list[NewRecord]:
        """The tombstones of a group, without those of its offsets."""
        now_ms = self._core.clock.now_ms()
        return [NewRecord(key, None, now_ms) for key in group_keys(group)]

    def encode_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Steps[bytearray]:
        """Make the batch of committed offsets. CoordinatorLogError where they are too large for one.

        With a producer id it belongs to that producer's transaction.
        """
        now_ms = self._core.clock.now_ms()
        topic = self.log.topic
        most = topic.max_message_bytes if topic is not None and self.log.is_uncompressed else LONG_MAX
        size = 0
        records: list[NewRecord] = []
        for key, offset in offsets.items():
            record = offset_record(group_id, key, offset, now_ms)
            size += len(record.key or b"") + len(record.value or b"")
            if size > most:
                raise CoordinatorLogError(ErrorCode.MESSAGE_TOO_LARGE, f"the offsets exceed {most} bytes")
            records.append(record)
            if not len(records) % _OFFSETS_BY_STEP:
                yield
        if producer_id < 0:
            producer_id, producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        return (
            yield from self.log.batch_of(
                records,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=_SEQUENCE_OF_COMMITS,
            )
        )

    def commit(self, group: AnyGroup, offsets: Mapping[TopicPartition, CommittedOffset], batch: bytearray) -> ErrorCode:
        """Write committed offsets, as this batch; they count when this returns NONE (`storeOffsets`)."""
        try:
            first = self._append(group.group_id, batch)
        except CoordinatorLogError as error:
            return commit_error(error.code)
        group.offsets.commit({key: offset.at(first) for key, offset in offsets.items()})
        return ErrorCode.NONE

    def commit_transactional(
        self,
        group: AnyGroup,
        offsets: Mapping[TopicPartition, CommittedOffset],
        batch: bytearray,
        producer_id: int,
    ) -> ErrorCode:
        """As `commit`, of offsets that count once the producer's transaction is committed.

        They count at once if there is no producer.
        """
        if producer_id < 0:  # it gets so far only where transactions are not verified
            return self.commit(group, offsets, batch)
        try:
            first = self._append(group.group_id, batch)
        except CoordinatorLogError as error:
            return commit_error(error.code)
        group.offsets.commit_pending(producer_id, {key: offset.at(first) for key, offset in offsets.items()})
        self._known.open(producer_id, group.group_id)
        return ErrorCode.NONE

    def has_ongoing_transaction(self, group_id: str, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer's transaction has written to the group's partition.

        What is open there in an earlier epoch is another one, which still awaits its marker.
        """
        topic = self.log.topic
        place = None if topic is None else topic.partition(self.log.partition_of(group_id))
        if place is None:
            return False
        try:
            producer = place.log.producers.active.get(producer_id)
        except MAPPED:
            return False
        return (
            producer is not None
            and producer.current_txn_first_offset >= 0
            and producer.producer_epoch == producer_epoch
        )

    def complete_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A marker for the producer is in this partition of `__consumer_offsets`: its offsets count, or never will."""
        loading = self._loader.replay_of(partition)
        if loading is not None:
            loading.ended.append((producer_id, commit))
            return
        for group in self._known.close(producer_id, partition):
            group.offsets.complete(producer_id, commit=commit)

    # Forgetting

    def delete_offsets(self, group: AnyGroup, choose: Choice) -> Steps[ErrorCode]:
        """Forget committed offsets (OffsetDelete), and a classic group with them if it is empty and has no others.

        Others are served while tombstones are made: what `choose` answers last counts.
        """
        return self._forget(group, choose, may_go=isinstance(group, Group))

    def remove(self, group: AnyGroup, refusal: Callable[[], ErrorCode] = lambda: ErrorCode.NONE) -> Steps[ErrorCode]:
        """Forget a group and all of its offsets (DeleteGroups).

        Others are served while tombstones are made: `refusal` is asked each time whether the group may still go.
        """
        return self._forget(group, lambda: refusal() or group.offsets.everything(), wholly=True)

    def topics_deleted(self, names: Iterable[str]) -> Steps[None]:
        """Topics are gone, and what was committed for them with them; or `__consumer_offsets` is, and all groups."""
        self._loader.look_at_topic()
        if self.log.topic is None:
            return
        deleted = set(names)
        for partition in range(self.log.partition_count):
            if not self._loader.is_loaded(partition):
                self._owed.setdefault(partition, set()).update(deleted)
        yield from self._forget_topics(deleted, self.groups())

    def _forget_topics(self, names: set[str], groups: Iterable[AnyGroup]) -> Steps[None]:
        # A classic group ends with its last offset. Since Kafka 4.0 it ends with the next look for expired offsets.
        dies = is_before(self._core.config.release, "4.0")
        for number, group in enumerate(groups, 1):
            if not number % _GROUPS_BY_STEP:
                yield
            if isinstance(group, ShareGroup):
                self._forget_states(group)
            if self._groups.get(group.group_id) is group and group.offsets.of_topics(names):
                of_topics = partial(group.offsets.of_topics, names)
                yield from self._forget(group, of_topics, may_go=isinstance(group, Group) and dies)

    def _forget_states(self, group: ShareGroup) -> None:
        """Topics of a share group are gone: the share coordinator forgets their states by itself."""
        gone = [topic for topic in group.partitions.topic_ids() if self._core.topics.with_id(topic) is None]
        if gone:
            self.save_changes(group, [state_partitions(group.group_id, group.partitions.without(gone))])

    def _expire(self) -> Iterator[None]:
        """Forget offsets that have been kept for long enough, and empty groups (`cleanupGroupMetadata`)."""
        for group in self.groups():
            if self._groups.get(group.group_id) is group and not isinstance(group, ShareGroup):  # those stay
                yield from self._forget(group, partial(self._expired, group))
            yield

    def _expired(self, group: Group | ConsumerGroup | StreamsGroup) -> list[TopicPartition]:
        return expired_offsets(group, self.now_ms(), self._retention_ms)

    def _forget(
        self, group: AnyGroup, choose: Choice, *, wholly: bool = False, may_go: bool = True
    ) -> Steps[ErrorCode]:
        """Write tombstones and forget, as `forgetting.find` says; nothing is forgotten that could not be written.

        All in one step, but for a group of more than 10,000 offsets.
        """
        group_id = group.group_id
        found = partial(find, group, choose, wholly=wholly, may_go=may_go)
        while True:
            forgotten, batches = yield from prepare(self.log, group_id, found, self.now_ms())
            if isinstance(forgotten, ErrorCode):
                return forgotten
            try:
                for batch in batches:
                    self._append(group_id, batch)
            except CoordinatorLogError as error:
                _logger.error("The deletions of group %s cannot be written down: %s", group_id, error)  # noqa: TRY400 - it says all
                return commit_error(error.code)
            group.offsets.remove(forgotten.removed)
            if forgotten.group_keys is not None:
                self._bury(group)
            if not forgotten.has_more:
                return ErrorCode.NONE
            yield

    def _bury(self, group: AnyGroup) -> None:
        group.die()
        self._known.discard(group)
        self._on_forgotten(group)

    def close(self) -> None:
        """Nothing is loaded any more."""
        self._loader.close()


def commit_error(code: ErrorCode) -> ErrorCode:
    """The error for a client whose offsets could not be written (`maybeConvertOffsetCommitError`)."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else _coordinator_code(code)


def _coordinator_code(code: ErrorCode) -> ErrorCode:
    return _APPEND_ERRORS.get(code, code)
