"""Migration of state that minibroker 1.0 stored in the wrong partitions of the coordinators' topics.

Version 1.0 masked the sign bit of a key's hash where Kafka uses the absolute value. If both partitions have state for
the same key, the newer state wins. Offsets are compared by their commit timestamps, and other states by the timestamps
of their records. Kafka's partition wins a tie. Each offset, transactional id and share-partition is one state. All
other records of a group together form one state.

The state is first written to disk in Kafka's partition. Only then do tombstones without a timestamp replace it in the
other partition. The next start therefore repeats an interrupted move. After a complete move, it finds nothing to do.

Remove this module in version 2.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names it error
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.features import TRANSACTION_VERSION
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError, java_hash
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.coordinators.transactions.transaction import (
    Marker,
    Transaction,
    TransactionState,
    encode_key,
    encode_value,
    transaction_of,
    write_marker,
)
from minibroker_protocol.coordinator_records import OffsetCommitValue, TransactionLogValue, decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from minibroker_protocol.records.batch import Batch, RecordBatch
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_TIMESTAMP, control_type
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.data_directory.offset_checkpoints import OffsetCheckpoint

_NOUNS: Final = {TRANSACTION_STATE: "transactional ids", CONSUMER_OFFSETS: "groups", SHARE_GROUP_STATE: "share groups"}
"""The topics and the nouns for their keys, in the order of the moves. Pending offsets need the transactions."""
_CHECKPOINT_NAME: Final = "minibroker-misplaced-offset-checkpoint"
"""The checkpoint file with the end of each searched partition. Later starts search only the records after it."""
_KEY_HEADER: Final = Struct(">hh")
"""The version of a key, and the length of the name after it."""
_SHARE_PARTITION: Final = Struct(">16si")
_OFFSET_KEYS: Final = (b"\x00\x00", b"\x00\x01")
_SNAPSHOT_KEY: Final = b"\x00\x00"
_HASH_MASK: Final = 0x7FFF_FFFF
_BATCH_BYTES: Final = 1 << 18
_RECORD_OVERHEAD: Final = 32
_OPEN: Final = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_logger = logging.getLogger(__name__)


class _StateOwner(NamedTuple):
    """The owner of a state: a name and, for an offset or a share-partition, the remaining bytes of its key."""

    name: str
    rest: bytes


class _LoggedRecord(NamedTuple):
    """A record in a log, with the time used to compare the states in two partitions."""

    record: NewRecord
    offset: int
    time_ms: int

    @property
    def is_moved(self) -> bool:
        """Whether the record is the tombstone of a moved record."""
        return self.record.value is None and self.record.timestamp == NO_TIMESTAMP


_State = dict[object, _LoggedRecord]
"""The records of one state by key. Each update to a share-partition gets a key of its own."""


class _PendingOffsets:
    """The offsets of an open transaction.

    Attributes:
        is_mixed: Whether the transaction also has offsets that are in the right partition.
    """

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        self.records: list[tuple[_StateOwner, _LoggedRecord]] = []
        self.is_mixed = False


class _Partition:
    """The states in one partition of a coordinator's topic, and its open transactions by producer id.

    Args:
        is_wanted: Returns whether to read the states of a key. The argument is the text that is hashed to choose
            the partition.

    Raises:
        MAPPED: The log cannot be read.
    """

    def __init__(self, log: CoordinatorLog, index: int, is_wanted: Callable[[str], bool], start: int = 0) -> None:
        self._topic = log.name
        self._is_wanted = is_wanted
        self._owners: dict[bytes, _StateOwner | None] = {}
        self._states: dict[_StateOwner, _State] = {}
        self.pending: dict[int, _PendingOffsets] = {}
        for batches in log.replay(index, start):
            for batch in batches:
                try:
                    self._read(batch)
                except DecodeError:
                    continue  # The replay of the partition logs this error.
        for pending in self.pending.values():
            pending.records = [
                (owner, logged)
                for owner, logged in pending.records
                if (committed := self._states.get(owner, {}).get(logged.record.key)) is None
                or committed.offset < logged.offset
            ]
        self.states = {
            owner: live
            for owner, state in self._states.items()
            if (live := {key: logged for key, logged in state.items() if not logged.is_moved})
        }

    @property
    def names(self) -> set[str]:
        """The groups or transactional ids with a state or pending offsets in this partition."""
        pending = {owner.name for transaction in self.pending.values() for owner, _ in transaction.records}
        return pending | {owner.name for owner in self.states}

    def _read(self, batch: Batch) -> None:
        pending: _PendingOffsets | None = None
        if isinstance(batch, RecordBatch):
            header = batch.header
            if header.is_control:
                ended_transaction = self.pending.pop(header.producer_id, None)
                if ended_transaction is not None and any(control_type(record.key)[0] == "COMMIT" for record in batch):
                    for pending_owner, logged in ended_transaction.records:
                        self._put(pending_owner, logged)
                return
            if header.is_transactional:
                pending = self.pending.setdefault(header.producer_id, _PendingOffsets())
                pending.epoch = header.producer_epoch
        for record in batch:
            if (owner := self._find_owner(record.key)) is not None:
                logged = _LoggedRecord(
                    NewRecord(record.key, record.value, record.timestamp), record.offset, self._time_of(record)
                )
                if pending is None:
                    self._put(owner, logged)
                else:
                    pending.records.append((owner, logged))
            elif pending is not None:
                pending.is_mixed = True

    def _put(self, owner: _StateOwner, written: _LoggedRecord) -> None:
        state = self._states.setdefault(owner, {})
        key: object = written.record.key
        if self._topic == SHARE_GROUP_STATE:
            if (written.record.key or b"").startswith(_SNAPSHOT_KEY):
                state.clear()
            else:
                key = key, written.offset
        if key not in state or state[key].offset < written.offset:
            state[key] = written

    def _find_owner(self, key: bytes | None) -> _StateOwner | None:
        """Return the owner of a record, or None if the owner's state is not wanted."""
        if key is None:
            return None
        if key not in self._owners:
            owner = _parse_key(self._topic, key)
            is_chosen = owner is not None and self._is_wanted(_text_to_hash(self._topic, owner))
            self._owners[key] = owner if is_chosen else None
        return self._owners[key]

    def _time_of(self, record: Record) -> int:
        """Return the commit timestamp of an offset, or the record timestamp of anything else."""
        key, value = record.key or b"", record.value
        if self._topic == CONSUMER_OFFSETS and key.startswith(_OFFSET_KEYS) and value is not None:
            with contextlib.suppress(DecodeError):
                return decode_versioned(OffsetCommitValue, value).commit_timestamp
        return record.timestamp


class _Move:
    """Moves the misplaced states of one topic.

    Args:
        searched: The offset up to which earlier starts have searched each partition, updated by this start.
    """

    def __init__(self, core: Core, log: CoordinatorLog, searched: dict[TopicPartition, int]) -> None:
        self._core = core
        self._log = log
        self._moving: dict[int, _Partition] = {}
        self._written: dict[int, list[NewRecord]] = {}
        self._tombstones: dict[int, set[bytes]] = {}
        self._aborts: list[tuple[int, Marker]] = []
        for index in range(log.partition_count):
            is_misplaced = partial(self._is_misplaced, index)
            end, start = self._find_end(index), searched.get((log.name, index), 0)
            partition = _read(log, index, is_misplaced, start if start <= end else 0)
            if partition is not None and end:
                searched[log.name, index] = end
                if partition.names and (whole := _read(log, index, is_misplaced)) is not None:
                    self._moving[index] = whole
        self.count = len(set[str]().union(*(partition.names for partition in self._moving.values())))

    def _find_end(self, index: int) -> int:
        partition = self._log.partition(index)
        try:
            return 0 if partition is None else partition.log.log_end_offset
        except MAPPED:
            return 0

    def _is_misplaced(self, index: int, text: str) -> bool:
        return self._log.partition_of(text) != index == (java_hash(text) & _HASH_MASK) % self._log.partition_count

    def run(self) -> None:
        """Move all misplaced states.

        Raises:
            CoordinatorLogError: The disk failed. The remaining states are moved at the next start of the broker.
        """
        self._choose_states()
        for index, records in self._written.items():
            for batch in _split_into_batches(records):
                self._log.append(index, batch)
        if self._log.name == CONSUMER_OFFSETS:
            # Write pending offsets after committed offsets, because the later record in a partition wins.
            self._move_pending_offsets()
        if not self._core.logs.flush():
            raise CoordinatorLogError(ErrorCode.KAFKA_STORAGE_ERROR, "a log cannot be forced to disk")
        for index, marker in self._aborts:
            write_marker(self._core, self._log.name, index, marker)
        for index, keys in self._tombstones.items():
            for deleted in self._log.tombstone_batches(sorted(keys)):
                self._log.append(index, [NewRecord(key, None, NO_TIMESTAMP) for key in deleted])

    def _target_partition(self, owner: _StateOwner) -> int:
        return self._log.partition_of(_text_to_hash(self._log.name, owner))

    def _choose_states(self) -> None:
        """Compare the states of both partitions, and collect the records to write to each partition."""
        texts: dict[int, set[str]] = {}
        for partition in self._moving.values():
            for owner in partition.states:
                text = _text_to_hash(self._log.name, owner)
                texts.setdefault(self._log.partition_of(text), set()).add(text)
        targets = {index: _read(self._log, index, chosen.__contains__) for index, chosen in texts.items()}
        for index, partition in self._moving.items():
            for owner, state in partition.states.items():
                if (target := targets[self._target_partition(owner)]) is not None:
                    self._choose(index, owner, state, target.states.get(owner, {}))

    def _choose(self, index: int, owner: _StateOwner, state: _State, kafka_state: _State) -> None:
        newest, newest_of_kafka = _find_newest_time(state), _find_newest_time(kafka_state)
        winner, loser = (state, kafka_state) if newest > newest_of_kafka else (kafka_state, state)
        if self._log.name == TRANSACTION_STATE:
            self._end_superseded(_decode_transaction(owner, loser), _decode_transaction(owner, winner))
        if winner is state:
            records = self._written.setdefault(self._target_partition(owner), [])
            records += [logged.record for logged in sorted(state.values(), key=attrgetter("offset"))]
            deleted_keys = self._keys_to_delete(kafka_state) - self._keys_to_delete(state)
            records += [NewRecord(key, None, newest) for key in sorted(deleted_keys)]
        self._tombstones.setdefault(index, set()).update(self._keys_to_delete(state))

    def _keys_to_delete(self, state: _State) -> set[bytes]:
        """Return the keys whose tombstones delete a state."""
        keys = {logged.record.key or b"" for logged in state.values()}
        return {key for key in keys if self._log.name != SHARE_GROUP_STATE or key.startswith(_SNAPSHOT_KEY)}

    def _end_superseded(self, superseded: Transaction | None, current: Transaction | None) -> None:
        """Write end markers for a superseded open transaction, unless `current` has the same producer id.

        The markers commit the transaction if a commit was already prepared, and abort it otherwise.
        """
        if superseded is None or superseded.state not in _OPEN:
            return
        if current is not None and current.producer_id == superseded.producer_id:
            return
        commit = superseded.state is TransactionState.PREPARE_COMMIT
        marker = Marker(superseded.producer_id, superseded.producer_epoch, commit)
        for topic, index in sorted(superseded.partitions):
            write_marker(self._core, topic, index, marker)

    def _move_pending_offsets(self) -> None:
        """Write pending offsets to Kafka's partition, and add that partition to the transaction of the offsets.

        Offsets of an unknown transaction are not moved, because no marker will ever end the transaction.
        """
        if not any(pending.records for partition in self._moving.values() for pending in partition.pending.values()):
            return
        log = CoordinatorLog(self._core, TRANSACTION_STATE, partitions=1, configs={})
        transactions = {opened.producer_id: opened for opened in self._open_transactions(log)}
        for index, partition in self._moving.items():
            for producer_id, pending in partition.pending.items():
                transaction = transactions.get(producer_id)
                if transaction is None or (self._log.name, index) not in transaction.partitions or not pending.records:
                    continue
                by_target: dict[int, list[NewRecord]] = {}
                for owner, logged in pending.records:
                    by_target.setdefault(self._target_partition(owner), []).append(logged.record)
                added: frozenset[TopicPartition] = frozenset((self._log.name, target) for target in by_target)
                if not added <= transaction.partitions:
                    transaction = transaction._replace(partitions=transaction.partitions | added)
                    transactions[producer_id] = transaction
                    self._save(log, transaction)
                for target, records in by_target.items():
                    for batch in _split_into_batches(records):
                        encoded = self._log.build(
                            batch, producer_id=producer_id, producer_epoch=pending.epoch, base_sequence=0
                        )
                        self._log.append_batch(target, encoded)
                if not pending.is_mixed:
                    self._aborts.append((index, Marker(producer_id, pending.epoch, commit=False)))
                keys = {logged.record.key or b"" for _, logged in pending.records}
                self._tombstones.setdefault(index, set()).update(keys)

    def _open_transactions(self, log: CoordinatorLog) -> list[Transaction]:
        partitions = [_read(log, index, lambda _: True) for index in range(log.partition_count)]
        transactions = [
            _decode_transaction(owner, state)
            for partition in partitions
            if partition is not None
            for owner, state in partition.states.items()
        ]
        return [each for each in transactions if each is not None and each.state in _OPEN]

    def _save(self, log: CoordinatorLog, transaction: Transaction) -> None:
        value = encode_value(transaction, level=self._core.features.level(TRANSACTION_VERSION))
        record = NewRecord(encode_key(transaction.transactional_id), value, self._core.clock.now_ms())
        log.append(log.partition_of(transaction.transactional_id), [record])


def move_misplaced(core: Core) -> None:
    """Move all states that minibroker 1.0 misplaced to the partitions where Kafka looks for them."""
    moved: list[str] = []
    topics = {name: topic for name in _NOUNS if (topic := core.topics.get(name)) is not None}
    checkpoint = OffsetCheckpoint(
        os.path.dirname(next(iter(topics.values())).partitions[0].directory), _CHECKPOINT_NAME
    )
    searched = dict(checkpoint.offsets)
    for name in topics:
        move = _Move(core, CoordinatorLog(core, name, partitions=1, configs={}), searched)
        if move.count:
            try:
                move.run()
            except CoordinatorLogError as error:
                _logger.error("%s of minibroker 1.0 cannot be moved yet: %s", _NOUNS[name], error)  # noqa: TRY400 - the message is enough
                return
            moved.append(f"{move.count} {_NOUNS[name]}")
    if moved:
        _logger.info("moved to the partitions that Kafka uses: %s", ", ".join(moved))
    checkpoint.offsets = searched
    checkpoint.save_logged()


def _read(log: CoordinatorLog, index: int, is_wanted: Callable[[str], bool], start: int = 0) -> _Partition | None:
    """Read a partition, or return None if it is unreadable.

    The partition's loader logs the error. The next start of the broker reads the partition again.
    """
    try:
        return _Partition(log, index, is_wanted, start)
    except MAPPED:
        return None


def _parse_key(topic: str, key: bytes) -> _StateOwner | None:
    try:
        _, size = _KEY_HEADER.unpack_from(key)
        end = _KEY_HEADER.size + size
        owner = _StateOwner(key[_KEY_HEADER.size : end].decode(), key[end:])
        if topic == SHARE_GROUP_STATE:
            _SHARE_PARTITION.unpack(owner.rest)
    except (StructError, UnicodeDecodeError):
        return None
    is_offset = topic == CONSUMER_OFFSETS and key.startswith(_OFFSET_KEYS)
    return owner if is_offset or topic == SHARE_GROUP_STATE else owner._replace(rest=b"")


def _text_to_hash(topic: str, owner: _StateOwner) -> str:
    """Return the text whose hash chooses the partition."""
    if topic != SHARE_GROUP_STATE:
        return owner.name
    return SharePartitionKey(owner.name, *_SHARE_PARTITION.unpack(owner.rest)).text


def _find_newest_time(state: _State) -> int:
    return max((logged.time_ms for logged in state.values()), default=NO_TIMESTAMP)


def _decode_transaction(owner: _StateOwner, state: _State) -> Transaction | None:
    """Return the transaction described by a state, or None for a tombstone or an unreadable record."""
    for logged in state.values():
        if logged.record.value is not None:
            try:
                return transaction_of(owner.name, decode_versioned(TransactionLogValue, logged.record.value))
            except (DecodeError, ValueError):
                return None
    return None


def _split_into_batches(records: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    """Split records into batches small enough for any `max.message.bytes` that allows each single record."""
    batch: list[NewRecord] = []
    size = 0
    for record in records:
        size += len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
        if batch and size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
    if batch:
        yield batch
