"""The producers that wrote to a log: the ground of idempotence (Kafka's `ProducerStateManager`; KIP-98, KIP-360)."""

import contextlib
import os
from collections.abc import Collection, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CONTROL_FLAG, CONTROL_KEY, NO_OFFSET, TRANSACTIONAL_FLAG, BatchHeader
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.errors import (
    CorruptSnapshotError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from minibroker_storage.files import pwrite_all, read_file
from minibroker_storage.layout import SNAPSHOT_SUFFIX, file_name
from minibroker_storage.producer_snapshot import (
    NO_COORDINATOR_EPOCH,
    NUM_BATCHES_TO_RETAIN,
    BatchMetadata,
    ProducerStateEntry,
    SnapshotEncoder,
    decode_snapshot,
    new_batch,
    new_entry,
)
from minibroker_storage.transaction_index import AbortedTxn

__all__ = ["BatchMetadata", "ProducerStateEntry", "ProducerStateManager"]

_KEPT_BEFORE_APPEND: Final = NUM_BATCHES_TO_RETAIN - 1
_MARKER_VALUE: Final = Struct(">hi")
_ABORT_MARKER: Final = 0


class ProducerStateManager:
    """The producers of one log by id, and their snapshot files (Kafka's `ProducerStateManager`).

    Bytes: see `SnapshotEncoder`; a file is named by its end offset, `<20 digits>.snapshot`. One is
    written at roll, and stays as long as the segment that begins there; others are written at close and while a
    segment grows, and each takes the place of the one before. Crash rule: a snapshot that does not check out is
    removed; the newest good one at or below the log's end is loaded, and the batches behind it are replayed from the
    log. An older one goes only when the newer one is written.

    Changes are staged: `rollback()` undoes every `update` since the last `commit()`.

    Who keeps producers in memory only needs no directory, and may begin with those that are `known`.
    """

    __slots__ = (
        "_changed",
        "_directory",
        "_encoder",
        "_expiration_ms",
        "_last_snapshot_offset",
        "_ongoing",
        "_passing_snapshot",
        "_producers",
        "_transactions_changed",
        "first_unstable_offset",
        "map_end_offset",
        "snapshots",
        "staged",
    )

    def __init__(
        self,
        directory: str,
        expiration_ms: int,
        snapshots: Collection[int] = (),
        known: Mapping[int, ProducerStateEntry] | None = None,
    ) -> None:
        self._directory = directory
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerStateEntry] = dict(known or {})
        self._encoder = SnapshotEncoder()
        self._changed = set(self._producers)  # since the encoder was last asked
        #: The producers of the updates that `commit` has yet to keep, with what was known of them before each.
        self.staged: list[tuple[int, ProducerStateEntry | None]] = []
        self._last_snapshot_offset = 0
        self._passing_snapshot: int | None = None
        self._ongoing: dict[int, int] = {}  # ascending, since transactions begin in the log's order
        self._transactions_changed = False
        #: Where the oldest open transaction begins, by what is committed; None when there is none.
        self.first_unstable_offset: int | None = None
        #: The offset up to which the producers are known; the owner moves it before a snapshot is taken.
        self.map_end_offset = 0
        #: Offsets of the snapshot files there are, ascending.
        self.snapshots = sorted(snapshots)
        if known:
            self._find_ongoing()

    @property
    def active(self) -> Mapping[int, ProducerStateEntry]:
        """The known producers by id, staged changes included (DescribeProducers)."""
        return MappingProxyType(self._producers)

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the newest snapshot file."""
        return self.snapshots[-1] if self.snapshots else None

    def move(self, directory: str) -> None:
        """The log's directory was renamed."""
        self._directory = directory

    def set_expiration_ms(self, expiration_ms: int) -> None:
        """Take over a changed `producer.id.expiration.ms`."""
        self._expiration_ms = expiration_ms

    def check(self, header: BatchHeader, *, from_client: bool = True) -> BatchMetadata | None:
        """Whether the batch continues what its producer wrote (`ProducerAppendInfo`, `findDuplicateBatch`).

        Returns the known batch that this one repeats, to be answered with that one's offset and timestamp, or None
        when it is to be appended. A producer without state may begin at any sequence number (KIP-360). Batches of
        coordinators (`from_client` False) carry no sequence numbers and are checked for their epoch only.
        `InvalidProducerEpochError`, `OutOfOrderSequenceError`, `InvalidTxnStateError`.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return None
        # A batch that is not transactional must not slip into an open transaction: its end would not cover it.
        in_transaction = header.attributes & TRANSACTIONAL_FLAG or entry.current_txn_first_offset < 0
        if entry.producer_epoch == header.producer_epoch:
            batches = entry.batches
            # The usual case first: the next batch of a producer that has lost no answer.
            if batches and in_transaction and header.base_sequence == (batches[-1].last_sequence + 1) & INT32_MAX:
                return None
            if from_client:
                first, last = header.base_sequence, header.last_sequence
                # Any of the last five may be repeated: that many requests of a producer may be in flight (KIP-98).
                for batch in batches:
                    if batch.first_sequence == first and batch.last_sequence == last:
                        return batch
        self._refuse_unless_next(header, entry, from_client=from_client)
        if not in_transaction and not header.attributes & CONTROL_FLAG:
            raise InvalidTxnStateError(f"producer {header.producer_id}: a batch outside of its open transaction")
        return None

    def check_coordinator_epoch(self, producer_id: int, coordinator_epoch: int) -> None:
        """`TransactionCoordinatorFencedError` when the log holds a marker from a newer coordinator epoch."""
        entry = self._producers.get(producer_id)
        if entry is not None and entry.coordinator_epoch > coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"producer {producer_id}: coordinator epoch {coordinator_epoch} after {entry.coordinator_epoch}"
            )

    @staticmethod
    def _refuse_unless_next(header: BatchHeader, entry: ProducerStateEntry, *, from_client: bool) -> None:
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        # Also for coordinators: a marker of an older epoch would end the transaction of a newer producer.
        if epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(f"producer {producer_id}: epoch {epoch} after {entry.producer_epoch}")
        if not from_client or header.attributes & CONTROL_FLAG:
            return
        if epoch > entry.producer_epoch:
            # A new epoch begins at 0, or batches of the old epoch that are still on their way could follow it
            # unnoticed.
            if sequence:
                raise OutOfOrderSequenceError(
                    f"producer {producer_id}: sequence {sequence} begins epoch {epoch} after {entry.producer_epoch}"
                )
        elif sequence != (entry.last_sequence + 1) & INT32_MAX:
            raise OutOfOrderSequenceError(
                f"producer {producer_id}: sequence {sequence} after {entry.last_sequence} in epoch {epoch}"
            )

    def update(self, header: BatchHeader, base_offset: int, batch: memoryview) -> AbortedTxn | None:
        """Note a batch that got `base_offset`; until `commit()` it can be taken back.

        The bytes are opened only for a control batch, whose marker ends a transaction; `DecodeError` when it is none.
        Returns the transaction that it aborts, for the transaction index.
        """
        producer_id = header.producer_id
        old = self._producers.get(producer_id)
        # Entries are immutable, so the old one is the whole of the undo.
        self.staged.append((producer_id, old))
        self._changed.add(producer_id)
        if header.attributes & CONTROL_FLAG:
            return self._end_transaction(header, old, base_offset, batch)
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        epoch, sequence = header.producer_epoch, header.base_sequence
        # Sequence numbers wrap to 0, not to negative ones (`DefaultRecordBatch.incrementSequence`).
        last_sequence = (sequence + delta) & INT32_MAX if sequence >= 0 else sequence
        added = new_batch((sequence, last_sequence, base_offset + delta, delta, timestamp))
        kept: tuple[BatchMetadata, ...] = ()
        coordinator_epoch, txn_first_offset = NO_COORDINATOR_EPOCH, NO_OFFSET
        if old is not None:
            old_epoch, batches, _, coordinator_epoch, txn_first_offset = old
            # Batches of an older epoch are no duplicates of anything that may still come.
            if old_epoch == epoch:
                kept = batches[-_KEPT_BEFORE_APPEND:]
        if txn_first_offset < 0 and header.attributes & TRANSACTIONAL_FLAG:
            txn_first_offset = self._ongoing[producer_id] = base_offset
            self._transactions_changed = True
        self._producers[producer_id] = new_entry(
            (epoch, (*kept, added), timestamp, coordinator_epoch, txn_first_offset)
        )
        return None

    def incomplete(self) -> set[int]:
        """The producers of which fewer batches are known than they may have written, after loading a snapshot."""
        return {key for key, entry in self._producers.items() if not _is_complete(entry)}

    def recall(self, header: BatchHeader) -> bool:
        """Put a batch in front of those that are known of its producer, if it is the one before; for walks back.

        A snapshot has each producer's last batch only, but a client may repeat any of the last five. Says whether
        all of those are known now.
        """
        entry = self._producers[header.producer_id]
        sequence, _, last_offset, offset_delta, _ = entry.batches[0]
        if (
            header.producer_epoch == entry.producer_epoch
            and header.base_sequence >= 0
            and (header.last_sequence + 1) & INT32_MAX == sequence
            and header.last_offset < last_offset - offset_delta
        ):
            first, last, delta = header.base_sequence, header.last_sequence, header.last_offset_delta
            known = BatchMetadata(first, last, header.last_offset, delta, header.max_timestamp)
            entry = self._producers[header.producer_id] = entry._replace(batches=(known, *entry.batches))
        return _is_complete(entry)

    def _end_transaction(
        self, header: BatchHeader, old: ProducerStateEntry | None, offset: int, batch: memoryview
    ) -> AbortedTxn | None:
        producer_id = header.producer_id
        entry, marker_type = _after_marker(header, old, batch)
        self._producers[producer_id] = entry
        first_offset = self._ongoing.get(producer_id)
        # The transaction wrote nothing here, or a compaction has emptied its marker.
        if first_offset is None or marker_type is None:
            return None
        del self._ongoing[producer_id]
        self._transactions_changed = True
        if marker_type != _ABORT_MARKER:
            return None
        # The last stable offset once this marker counts (`ProducerStateManager.lastStableOffset`): searches end by it.
        return AbortedTxn(producer_id, first_offset, offset, next(iter(self._ongoing.values()), offset + 1))

    def commit(self) -> None:
        """Keep all updates."""
        self.staged.clear()
        # The oldest open transaction decides the last stable offset of every reader: found once for a commit, not for a
        # read.
        if self._transactions_changed:
            self._transactions_changed = False
            self.first_unstable_offset = next(iter(self._ongoing.values()), None)

    def rollback(self) -> None:
        """Undo all updates since `commit()`."""
        while self.staged:
            producer_id, old = self.staged.pop()
            if old is None:
                self._producers.pop(producer_id, None)
            else:
                self._producers[producer_id] = old
        if self._transactions_changed:
            self._find_ongoing()

    def _find_ongoing(self) -> None:
        """Take the open transactions from the producers."""
        begun = [
            (entry.current_txn_first_offset, producer_id)
            for producer_id, entry in self._producers.items()
            if entry.current_txn_first_offset >= 0
        ]
        self._ongoing = {producer_id: first_offset for first_offset, producer_id in sorted(begun)}
        self._transactions_changed = False
        self.first_unstable_offset = next(iter(self._ongoing.values()), None)

    def remove_expired(self, now_ms: int) -> int:
        """Forget producers that have written nothing for `producer.id.expiration.ms`; says how many.

        The time of one whose records have no timestamps begins with the first call. Kafka forgets it at once.
        """
        self._date(now_ms)
        expired = [producer_id for producer_id, entry in self._producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        self._changed.update(expired)
        return len(expired)

    def _date(self, now_ms: int) -> None:
        """Let `now_ms` be the last sign of life of producers whose batches have no time."""
        for producer_id in [key for key, entry in self._producers.items() if entry.last_timestamp < 0]:
            self._producers[producer_id] = self._producers[producer_id]._replace(last_timestamp=now_ms)
            self._changed.add(producer_id)

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        # An open transaction keeps its producer: the last stable offset would else jump over it.
        return entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self._expiration_ms

    def take_snapshot(self, *, passing: bool = False) -> None:
        """Write a snapshot at `map_end_offset`, unless there is none newer to tell. `OSError` leaves no file behind.

        It stays until its segment goes, a `passing` one only until the next snapshot.
        """
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            if offset == self._passing_snapshot and not passing:
                self._passing_snapshot = None
            return
        path = self._path(offset)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                pwrite_all(fd, self._encoder.encode(self._producers, self._changed), 0)
                self._changed.clear()
            finally:
                os.close(fd)
        except OSError:
            # A snapshot that is cut short would be found by the next start, and its checksum would fail.
            self.delete_snapshot(offset)
            raise
        if offset not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, offset])
        self._last_snapshot_offset = offset
        # Only when the newer one is written: at any moment there is a good one.
        if self._passing_snapshot is not None and self._passing_snapshot != offset:
            self.delete_snapshot(self._passing_snapshot)
        self._passing_snapshot = offset if passing else None

    def delete_snapshot(self, offset: int) -> None:
        """Remove one snapshot file, if it is there."""
        if offset in self.snapshots:
            self.snapshots.remove(offset)
        if offset == self._passing_snapshot:
            self._passing_snapshot = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(offset))

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Keep the snapshots of segments, and the newest of all if it lies behind the last segment's base.

        That one then is a passing one.
        """
        bases = set(segment_base_offsets)
        newest = self.snapshots[-1:] if self.snapshots and self.snapshots[-1] > max(bases) else []
        self._passing_snapshot = newest[0] if newest else None
        for offset in self.snapshots[:]:
            if offset not in bases and offset not in newest:
                self.delete_snapshot(offset)

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int, *, at_most: int | None = None
    ) -> None:
        """Go back to a state at or below `log_end_offset`: what the newest good snapshot in range says.

        `map_end_offset` then says from where the log has to be replayed; `at_most` is a limit for it.
        """
        for offset in self.snapshots[:]:
            # Behind the end they have batches that are gone; at or below the start they are older than the log.
            if offset > log_end_offset or offset <= log_start_offset:
                self.delete_snapshot(offset)
        self._forget_producers()
        self.map_end_offset = self._last_snapshot_offset = log_start_offset
        for offset in reversed(self.snapshots[:]):
            if at_most is not None and offset > at_most:
                continue
            try:
                snapshot = read_file(self._path(offset))
                self._producers.update(decode_snapshot(snapshot))
            except (CorruptSnapshotError, FileNotFoundError):
                self.delete_snapshot(offset)
                continue
            self._encoder = SnapshotEncoder(snapshot)
            self.remove_expired(now_ms)
            self.map_end_offset = self._last_snapshot_offset = offset
            break
        self._find_ongoing()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget all producers and remove all snapshots."""
        self._forget_producers()
        self._find_ongoing()
        self.delete_snapshots()
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def _forget_producers(self) -> None:
        self._producers.clear()
        self.staged.clear()
        self._encoder = SnapshotEncoder()
        self._changed.clear()

    def delete_snapshots(self) -> None:
        """Remove all snapshots."""
        for snapshot in self.snapshots[:]:
            self.delete_snapshot(snapshot)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """The log begins later now; the producers themselves stay known."""
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def _is_complete(entry: ProducerStateEntry) -> bool:
    batches = entry.batches
    return not batches or len(batches) == NUM_BATCHES_TO_RETAIN or batches[0].first_sequence <= 0


def _after_marker(
    header: BatchHeader, old: ProducerStateEntry | None, batch: memoryview
) -> tuple[ProducerStateEntry, int | None]:
    """The producer after a commit or abort marker, which ends its transaction, and the marker's type.

    A new epoch in the marker also ends the row of sequence numbers. None for a marker that compaction has emptied: its
    transaction is gone from the log.
    """
    old = old or ProducerStateEntry(header.producer_epoch, (), header.max_timestamp)
    for record in RecordBatch(batch):
        batches = old.batches if old.producer_epoch == header.producer_epoch else ()
        key, value = record.key or b"", record.value or b""
        if len(value) < _MARKER_VALUE.size or len(key) < CONTROL_KEY.size:
            raise CorruptRecordError(
                f"offset {record.offset}: a transaction marker of {len(key)} and {len(value)} bytes"
            )
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
        _, marker_type = CONTROL_KEY.unpack_from(key)
        return ProducerStateEntry(header.producer_epoch, batches, record.timestamp, coordinator_epoch), marker_type
    return old, None
