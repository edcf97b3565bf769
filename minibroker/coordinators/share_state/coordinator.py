"""The share coordinator: initializes, reads, writes and deletes states of share-partitions (`ShareCoordinatorService`).

A call returns after its change is in `__share_group_state`. The group coordinator and the leaders of partitions call
the share coordinator directly. Requests from other brokers arrive through its handlers.

This is one file of more than 500 lines because all calls check, write and apply the same states.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach, steps_of
from minibroker.cluster.topic_admin import TopicError
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.partition_loader import PartitionLoader, PartitionReplay
from minibroker.coordinators.share_state.state import (
    MAX_BATCHES,
    UNKNOWN,
    Change,
    SharePartitionKey,
    ShareState,
    StateBatch,
    apply_change,
    decode_change,
    decode_state,
    encode_snapshot,
    encode_snapshot_key,
    encode_update,
    encode_update_key,
)
from minibroker_protocol.coordinator_records.share_groups import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateValue
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.internal_topics import SHARE_GROUP_STATE
from minibroker_protocol.records.batch import Batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord

_SNAPSHOT: Final = b"\x00\x00"
_UPDATE: Final = b"\x00\x01"
_logger = logging.getLogger(__name__)


class StoredState:
    """A share-partition's state, and its position in the coordinator's log.

    Attributes:
        offset: The offset of its latest snapshot in the coordinator's topic.
        updates: The number of updates since that snapshot.
        state_fence, leader_fence: The highest epochs seen. Requests with lower epochs are fenced.
    """

    __slots__ = ("leader_fence", "offset", "state", "state_fence", "updates")

    def __init__(self, state: ShareState, offset: int) -> None:
        self.state = state
        self.offset = offset
        self.updates = 0
        self.state_fence = state.state_epoch
        self.leader_fence = state.leader_epoch

    def put(self, state: ShareState) -> None:
        """Replace the state. The fences never decrease."""
        self.state = state
        self.state_fence = max(self.state_fence, state.state_epoch)
        self.leader_fence = max(self.leader_fence, state.leader_epoch)


class _Location(NamedTuple):
    """The log partition of a state, and the key of its updates. Cached because every acknowledgement needs both."""

    partition: int
    update_key: bytes


class ShareStateStore(PartitionLoader["_Replay"]):
    """The states of all share-partitions. Callers check `state_readiness` first."""

    def __init__(self, core: Core) -> None:
        config = core.config
        self._updates_per_snapshot = config.integer("share.coordinator.snapshot.update.records.per.snapshot")
        log = CoordinatorLog(
            core,
            SHARE_GROUP_STATE,
            partitions=config.integer("share.coordinator.state.topic.num.partitions"),
            factor=config.integer("share.coordinator.state.topic.replication.factor"),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.integer("share.coordinator.state.topic.min.isr")),
                "retention.ms": "-1",
                "segment.bytes": str(config.integer("share.coordinator.state.topic.segment.bytes")),
            },
            codec=CompressionCodec(config.integer("share.coordinator.state.topic.compression.codec")),
        )
        super().__init__(core, log)
        self._states: dict[int, dict[SharePartitionKey, StoredState]] = {}
        self._ends: dict[int, int] = {}  # The offset of the latest record by partition.
        # Contains only states that have changed since the broker started.
        self._locations: dict[SharePartitionKey, _Location] = {}

    def state_readiness(self, key: SharePartitionKey, node: Node | None = None) -> ErrorCode:
        """Return NONE if requests for a share-partition can be served, or an error of `check_readiness`."""
        location = self._locations.get(key)
        if location is not None and self._core.cluster.is_single and self.is_loaded(location.partition):
            return ErrorCode.NONE
        return self.check_readiness(key.text, node)

    def get(self, key: SharePartitionKey) -> StoredState | None:
        """Return the state of a share-partition, or None."""
        return self._states.get(self._partition_of(key), {}).get(key)

    def _partition_of(self, key: SharePartitionKey) -> int:
        location = self._locations.get(key)
        return self.log.partition_of(key.text) if location is None else location.partition

    # The following methods change states. A change takes effect only after it is in the log.

    def change(self, key: SharePartitionKey, stored: StoredState, change: Change) -> ErrorCode:
        """Write an update, or a snapshot after many updates (`generateShareStateRecord`).

        Returns:
            NONE, a log error, or INVALID_REQUEST for more than `MAX_BATCHES` batches. Without this limit,
            the cost of later changes would grow without bound.
        """
        if len(change.batches) > MAX_BATCHES:
            return ErrorCode.INVALID_REQUEST
        state = apply_change(stored.state, change)
        if len(state.batches) > MAX_BATCHES:
            return ErrorCode.INVALID_REQUEST
        if stored.updates >= self._updates_per_snapshot:
            now_ms = self.now_ms()
            state = state._replace(
                snapshot_epoch=state.snapshot_epoch + 1, create_timestamp=now_ms, write_timestamp=now_ms
            )
            return self.write_snapshot(key, state)
        try:
            if (location := self._locations.get(key)) is None:
                location = self._locations[key] = _Location(self.log.partition_of(key.text), encode_update_key(key))
            record = NewRecord(location.update_key, encode_update(state.snapshot_epoch, change), self.now_ms())
            self._ends[location.partition] = self._append(location.partition, [record])
        except (CoordinatorLogError, EncodeError) as error:
            return _error_of(key, error)
        stored.put(state)
        stored.updates += 1
        return ErrorCode.NONE

    def remove(self, key: SharePartitionKey) -> ErrorCode:
        """Write a tombstone, and remove the state."""
        partition = self._partition_of(key)
        try:
            self._ends[partition] = self._append(partition, [NewRecord(encode_snapshot_key(key), None, self.now_ms())])
        except (CoordinatorLogError, EncodeError) as error:
            return _error_of(key, error)
        self._states.get(partition, {}).pop(key, None)
        self._locations.pop(key, None)
        return ErrorCode.NONE

    def write_snapshot(self, key: SharePartitionKey, state: ShareState) -> ErrorCode:
        """Write a snapshot of a state, and replace any earlier state."""
        partition = self._partition_of(key)
        try:
            record = NewRecord(encode_snapshot_key(key), encode_snapshot(state), self.now_ms())
            offset = self._append(partition, [record])
        except (CoordinatorLogError, EncodeError) as error:
            return _error_of(key, error)
        states = self._states.setdefault(partition, {})
        if (stored := states.get(key)) is None:
            states[key] = StoredState(state, offset)
        else:
            stored.put(state)
            stored.offset, stored.updates = offset, 0
        self._ends[partition] = max(self._ends.get(partition, -1), offset)
        return ErrorCode.NONE

    def remove_topics(self) -> Iterator[None]:
        """Write tombstones for the share-partitions of deleted topics, one batch per step."""
        return steps_of(ForEach(tuple(self._states.items()), self._remove_topics))

    def _remove_topics(self, entry: tuple[int, dict[SharePartitionKey, StoredState]]) -> ForEach[None]:
        partition, states = entry
        by_key = {encode_snapshot_key(key): key for key in states if self._core.topics.with_id(key.topic_id) is None}
        errors: list[CoordinatorLogError] = []

        def remove(batch: list[bytes]) -> None:
            try:
                records = [NewRecord(key, None, self.now_ms()) for key in batch]
                self._ends[partition] = self._append(partition, records) + len(records) - 1
            except CoordinatorLogError as error:
                _logger.error("share-partitions of deleted topics: %s", error)  # noqa: TRY400 - no traceback
                errors.append(error)
                return
            for key in batch:
                states.pop(by_key[key], None)
                self._locations.pop(by_key[key], None)

        return ForEach(takewhile(lambda _: not errors, self.log.tombstone_batches(by_key)), remove)

    def write_snapshots(self, least_age_ms: int) -> Iterator[None]:
        """Write new snapshots of states whose last snapshot is old, so that the log can be pruned.

        This is Kafka's `snapshotColdPartitions`. A partition of the log is skipped if this method wrote the last
        snapshots of all its states.
        """
        states = (
            (partition, key, stored)
            for partition, known in tuple(self._states.items())
            if any(stored.state.create_timestamp == stored.state.write_timestamp for stored in known.values())
            for key, stored in tuple(known.items())
        )
        failed_partitions: set[int] = set()

        def write(entry: tuple[int, SharePartitionKey, StoredState]) -> None:
            partition, key, stored = entry
            state, now_ms = stored.state, self.now_ms()
            is_known = self._states.get(partition, {}).get(key) is stored
            if is_known and partition not in failed_partitions and now_ms - state.write_timestamp >= least_age_ms:
                state = state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms)
                if self.write_snapshot(key, state):
                    failed_partitions.add(partition)

        return steps_of(ForEach(states, write))

    def prune(self) -> Iterator[None]:
        """In each partition of the log, delete the records below the oldest snapshot still in use."""
        return steps_of(ForEach(tuple(self._states.items()), self._prune))

    def _prune(self, entry: tuple[int, dict[SharePartitionKey, StoredState]]) -> Any:
        index, states = entry
        oldest_snapshot = min((stored.offset for stored in states.values()), default=self._ends.get(index, 0))
        partition = self.log.partition(index)
        if partition is None or partition.leader is None:
            return None
        try:
            if oldest_snapshot <= partition.log.log_start_offset:
                return None
            partition.log.advance_log_start_offset(oldest_snapshot)
        except MAPPED as error:
            _logger.error("%s-%d cannot be pruned: %s", self.log.name, index, error)  # noqa: TRY400 - no traceback
            return None
        return self._core.logs.save_moved_starts([partition])

    def _make_replay(self, name: str) -> "_Replay":
        return _Replay(name)

    def _drop_partition(self, partition: int) -> None:
        for key in self._states.pop(partition, {}):
            self._locations.pop(key, None)

    def _on_topic_lost(self) -> None:
        self._states.clear()
        self._ends.clear()
        self._locations.clear()

    def _use_replay(self, partition: int, replay: "_Replay") -> None:
        self._states[partition] = replay.states
        self._ends[partition] = replay.end


class _Replay(PartitionReplay):
    """The replay of a partition."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The offset of the latest snapshot, and a list of the snapshot and its updates.
        self._raw: dict[bytes, tuple[int, list[bytes]]] = {}
        self.states: dict[SharePartitionKey, StoredState] = {}
        self.end = -1

    def _read(self, batch: Batch) -> None:
        for record in batch:
            self.end = record.offset
            key = record.key or b""
            kind, partition = key[:2], key[2:]
            if kind == _SNAPSHOT and record.value is None:
                self._raw.pop(partition, None)
            elif kind == _SNAPSHOT and record.value is not None:
                # A snapshot replaces all earlier records of its share-partition.
                self._raw[partition] = record.offset, [record.value]
            elif kind == _UPDATE and record.value is not None and partition in self._raw:
                self._raw[partition][1].append(record.value)
            else:
                self._warn(f"the record at offset {record.offset} has no use")

    def finish(self) -> ForEach[None]:
        """Decode the loaded records into `states`, one update at a time."""
        return ForEach(self._raw.items(), self._decode)

    def _decode(self, raw: tuple[bytes, tuple[int, list[bytes]]]) -> ForEach[None] | None:
        partition, (offset, (snapshot, *updates)) = raw
        try:
            raw_key = decode_versioned(ShareSnapshotKey, _SNAPSHOT + partition)
            key = SharePartitionKey(raw_key.group_id, bytes(raw_key.topic_id), raw_key.partition)
            stored = StoredState(decode_state(decode_versioned(ShareSnapshotValue, snapshot)), offset)
        except DecodeError as error:
            self._warn(f"a record cannot be read: {error}")
            return None

        def apply(update: bytes) -> bool:
            try:
                stored.put(apply_change(stored.state, decode_change(decode_versioned(ShareUpdateValue, update))))
            except DecodeError as error:
                self._warn(f"a record cannot be read: {error}")
                return False
            return True

        def add(applied: list[bool]) -> None:
            if all(applied):
                stored.updates = len(updates)
                self.states[key] = stored

        return ForEach(updates, apply, add)


def _error_of(key: SharePartitionKey, error: CoordinatorLogError | EncodeError) -> ErrorCode:
    if isinstance(error, EncodeError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    _logger.error("share-partition %s: %s", key.text, error)
    return error.client_code


_ANY_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0
_NEGATIVE: Final = "The partition id cannot be a negative number."
_READ_UNINITIALIZED: Final = "Read operation on uninitialized share partition not allowed."
_TOO_MANY: Final = f"A share partition has at most {MAX_BATCHES:,} state batches."
_WRITE_UNINITIALIZED: Final = "Write operation on uninitialized share partition not allowed."


class Outcome(NamedTuple):
    """An error code, with a message if there is an error."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ReadOutcome(NamedTuple):
    """A state, or an error; see `ShareState`."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    batches: Sequence[StateBatch] = ()


class Summary(NamedTuple):
    """The offsets of a state, or an error; see `ShareState`.

    The offsets of a share-partition without a state are UNKNOWN.
    """

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    delivery_complete_count: int = UNKNOWN


class ShareCoordinator:
    """The share coordinator.

    Methods check that `node` coordinates the share-partition. If it is None, any coordinator is accepted.

    All methods can return NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST
    for a negative partition, and UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist.

    Attributes:
        on_initialized: Called with the key of a state that was initialized or deleted, so that the old state is no
            longer used.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.store = ShareStateStore(core)
        self.on_initialized: Callable[[SharePartitionKey], None] = lambda _: None
        integer = core.config.integer
        cold_ms = integer("share.coordinator.cold.partition.snapshot.interval.ms")
        core.chores.every("share state snapshots", cold_ms, partial(self.store.write_snapshots, cold_ms))
        core.chores.every(
            "share state pruning", integer("share.coordinator.state.topic.prune.interval.ms"), self.store.prune
        )

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, node: Node | None = None
    ) -> Outcome:
        """Initialize a state, replacing any existing state.

        If `start_offset` is UNKNOWN, the leader of the partition chooses the offset.

        Returns:
            NONE, FENCED_STATE_EPOCH if the existing state has a higher epoch, or an error common to all methods.
        """
        if code := self._check_readiness(key, node):
            return _to_outcome(code)
        stored = self.store.get(key)
        if stored is not None and _ANY_EPOCH != state_epoch < stored.state_fence:
            return _to_outcome(ErrorCode.FENCED_STATE_EPOCH)
        if code := self._check_existence(key):
            return _to_outcome(code)
        now_ms = self._core.clock.now_ms()
        state = ShareState(
            snapshot_epoch=_FIRST_EPOCH if stored is None else stored.state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=_FIRST_EPOCH,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN if start_offset == UNKNOWN else 0,
            batches=(),
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        code = self.store.write_snapshot(key, state)
        self.on_initialized(key)
        return _to_outcome(code)

    def read(self, key: SharePartitionKey, leader_epoch: int, node: Node | None = None) -> ReadOutcome:
        """Return a state, and record the epoch of the leader that reads it.

        Returns:
            The state, FENCED_LEADER_EPOCH if a later leader has read it, INVALID_REQUEST if no state was
            initialized, or an error common to all methods.
        """
        if code := self._check_readiness(key, node):
            return ReadOutcome(*_to_outcome(code))
        if (stored := self.store.get(key)) is None:
            return ReadOutcome(ErrorCode.INVALID_REQUEST, _READ_UNINITIALIZED)
        if _ANY_EPOCH != leader_epoch < stored.leader_fence:
            return ReadOutcome(*_to_outcome(ErrorCode.FENCED_LEADER_EPOCH))
        if code := self._check_existence(key):
            return ReadOutcome(*_to_outcome(code))
        state = stored.state
        if leader_epoch not in {_ANY_EPOCH, stored.leader_fence}:
            change = Change(leader_epoch, state.start_offset, state.delivery_complete_count, ())
            if code := self.store.change(key, stored, change):
                return ReadOutcome(*_to_outcome(code))
        return ReadOutcome(state_epoch=state.state_epoch, start_offset=state.start_offset, batches=state.batches)

    def write(self, key: SharePartitionKey, state_epoch: int, change: Change, node: Node | None = None) -> Outcome:
        """Change a state. The epochs in the change are checked, but not saved.

        Returns:
            NONE, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH for an epoch older than the state's, INVALID_REQUEST if
            no state was initialized, or an error common to all methods.
        """
        if code := self._check_readiness(key, node):
            return _to_outcome(code)
        if (stored := self.store.get(key)) is None:
            return Outcome(ErrorCode.INVALID_REQUEST, _WRITE_UNINITIALIZED)
        if _ANY_EPOCH != change.leader_epoch < stored.leader_fence:
            return _to_outcome(ErrorCode.FENCED_LEADER_EPOCH)
        if _ANY_EPOCH != state_epoch < stored.state_fence:
            return _to_outcome(ErrorCode.FENCED_STATE_EPOCH)
        if code := self._check_existence(key):
            return _to_outcome(code)
        code = self.store.change(key, stored, change._replace(leader_epoch=stored.state.leader_epoch))
        return Outcome(code, _TOO_MANY) if code is ErrorCode.INVALID_REQUEST else _to_outcome(code)

    def delete(self, key: SharePartitionKey, node: Node | None = None) -> Outcome:
        """Delete a state, if there is one."""
        if code := self._check_readiness(key, node) or self._check_existence(key):
            return _to_outcome(code)
        if self.store.get(key) is None:
            return Outcome()
        code = self.store.remove(key)
        self.on_initialized(key)
        return _to_outcome(code)

    def summary(self, key: SharePartitionKey, node: Node | None = None) -> Summary:
        """Return the offsets of a state."""
        if code := self._check_readiness(key, node) or self._check_existence(key):
            return Summary(*_to_outcome(code))
        if (stored := self.store.get(key)) is None:
            return Summary()
        state = stored.state
        return Summary(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def forget_deleted_topics(self) -> None:
        """Delete the states of deleted topics, in the background."""
        self._core.chores.run(self.store.remove_topics(), lambda: None)

    def close(self) -> None:
        """Stop loading states."""
        self.store.close()

    def _check_readiness(self, key: SharePartitionKey, node: Node | None) -> ErrorCode:
        # A call from this process creates the topic; a request from another broker does not.
        if node is None:
            try:
                self.store.log.ensure()
            except TopicError:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.store.state_readiness(key, node)

    def _check_existence(self, key: SharePartitionKey) -> ErrorCode:
        if key.partition < 0:
            return ErrorCode.INVALID_REQUEST
        topic = self._core.topics.with_id(key.topic_id)
        exists = topic is not None and topic.partition(key.partition) is not None
        return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _to_outcome(code: ErrorCode) -> Outcome:
    if not code:
        return Outcome()
    return Outcome(code, _NEGATIVE if code is ErrorCode.INVALID_REQUEST else code.meaning)
