"""The store of all share-partitions' states, backed by `__share_group_state` (`ShareCoordinatorShard`).

A snapshot contains a complete state, and an update contains a change to the state. After
`share.coordinator.snapshot.update.records.per.snapshot` updates, the next record is a snapshot. The topic is not
compacted: records below the oldest snapshot still in use are deleted periodically, as in Kafka.
"""

import logging
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach, steps_of
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.partition_loader import PartitionLoader, PartitionReplay
from minibroker.coordinators.share_state.state import (
    MAX_BATCHES,
    Change,
    SharePartitionKey,
    ShareState,
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
