"""The producers that wrote to a log, for idempotence (Kafka's `ProducerStateManager`; KIP-98, KIP-360)."""

import contextlib
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
from minibroker_storage.portability import os
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

_RETAINED_BEFORE_APPEND: Final = NUM_BATCHES_TO_RETAIN - 1
_MARKER_VALUE: Final = Struct(">hi")
_ABORT_MARKER: Final = 0


class ProducerStateManager:
    """The producers of one log by id, and their snapshot files (Kafka's `ProducerStateManager`).

    A snapshot file is named `<20 digits>.snapshot` after the offset at which it ends; see `SnapshotEncoder` for its
    format. The snapshot written at a roll is kept as long as the segment that begins at its offset. Other snapshots
    are temporary: they are written at close and while a segment grows, and each replaces the previous temporary
    one. An older snapshot is removed only after the newer one is written. Loading removes invalid snapshots, loads
    the newest valid one at or below the log end offset, and replays the later batches from the log.

    Changes are staged: `rollback()` undoes every `update` since the last `commit()`.

    Args:
        directory: the log's directory; unused if the state is kept only in memory.
        expiration_ms: `producer.id.expiration.ms`.
        snapshots: the offsets of the existing snapshot files.
        initial: the initial producers.
    """

    __slots__ = (
        "_changed",
        "_encoder",
        "_last_snapshot_offset",
        "_ongoing",
        "_producers",
        "_temporary_snapshot",
        "_transactions_changed",
        "directory",
        "expiration_ms",
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
        initial: Mapping[int, ProducerStateEntry] | None = None,
    ) -> None:
        self.directory = directory
        self.expiration_ms = expiration_ms
        self._producers: dict[int, ProducerStateEntry] = dict(initial or {})
        self._encoder = SnapshotEncoder()
        self._changed = set(self._producers)  # The ids of the producers that changed since the encoder last ran.
        #: For each uncommitted update, the producer id and the producer's state before the update.
        self.staged: list[tuple[int, ProducerStateEntry | None]] = []
        self._last_snapshot_offset = 0
        self._temporary_snapshot: int | None = None
        # The first offset of each open transaction. They ascend, because transactions begin in log order.
        self._ongoing: dict[int, int] = {}
        self._transactions_changed = False
        #: First offset of the oldest open transaction, ignoring staged changes, or None.
        self.first_unstable_offset: int | None = None
        #: The state includes all batches below this offset. The owner advances it before taking a snapshot.
        self.map_end_offset = 0
        #: Offsets of the existing snapshot files, ascending.
        self.snapshots = sorted(snapshots)
        if initial:
            self._find_ongoing()

    @property
    def active(self) -> Mapping[int, ProducerStateEntry]:
        """The known producers by id, including staged changes (DescribeProducers)."""
        return MappingProxyType(self._producers)

    def check(self, header: BatchHeader, *, from_client: bool = True) -> BatchMetadata | None:
        """Check that a batch continues its producer's earlier batches (`ProducerAppendInfo`, `findDuplicateBatch`).

        A producer without state may begin at any sequence number (KIP-360).

        Args:
            header: the header of the batch.
            from_client: False for a batch written by a coordinator. Such a batch has no sequence numbers, so only its
                epoch is checked.

        Returns: The earlier batch if this one is a duplicate and must be answered with the earlier offset and
            timestamp, or None if the batch should be appended.

        Raises:
            InvalidProducerEpochError: the producer epoch is too old.
            OutOfOrderSequenceError: the sequence number is not the next one.
            InvalidTxnStateError: the producer's transaction is open, but the batch is not transactional.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return None
        # A non-transactional batch must not be appended during an open transaction, because the end of the transaction
        # would not apply to the batch.
        in_transaction = header.attributes & TRANSACTIONAL_FLAG or entry.current_txn_first_offset < 0
        if entry.producer_epoch == header.producer_epoch:
            batches = entry.batches
            # The common case: the next batch of a producer that received all responses.
            if batches and in_transaction and header.base_sequence == (batches[-1].last_sequence + 1) & INT32_MAX:
                return None
            if from_client:
                first, last = header.base_sequence, header.last_sequence
                # The batch can repeat any of the last five, since a producer may have five requests in flight (KIP-98).
                for batch in batches:
                    if batch.first_sequence == first and batch.last_sequence == last:
                        return batch
        self._check_sequence(header, entry, from_client=from_client)
        if not in_transaction and not header.attributes & CONTROL_FLAG:
            raise InvalidTxnStateError(f"producer {header.producer_id}: a batch outside of its open transaction")
        return None

    def check_coordinator_epoch(self, producer_id: int, coordinator_epoch: int) -> None:
        """Check that a marker's coordinator epoch is not older than that of the producer's last marker.

        Raises:
            TransactionCoordinatorFencedError: the producer's last marker has a newer coordinator epoch.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and entry.coordinator_epoch > coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"producer {producer_id}: coordinator epoch {coordinator_epoch} after {entry.coordinator_epoch}"
            )

    @staticmethod
    def _check_sequence(header: BatchHeader, entry: ProducerStateEntry, *, from_client: bool) -> None:
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        # Markers from coordinators are checked too: a marker with an older epoch would end the transaction of a newer
        # producer.
        if epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(f"producer {producer_id}: epoch {epoch} after {entry.producer_epoch}")
        if not from_client or header.attributes & CONTROL_FLAG:
            return
        if epoch > entry.producer_epoch:
            # A new epoch begins at sequence number 0. Otherwise delayed batches of the old epoch could follow it
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
        """Update a producer with a batch that was assigned `base_offset`. The change is staged until `commit()`.

        The batch's bytes are read only if it is a control batch, whose marker ends a transaction.

        Returns:
            The transaction aborted by the batch, for the transaction index, or None.

        Raises:
            DecodeError: the control batch has no valid marker.
        """
        producer_id = header.producer_id
        old = self._producers.get(producer_id)
        # Entries are immutable, so the old entry is all that a rollback needs.
        self.staged.append((producer_id, old))
        self._changed.add(producer_id)
        if header.attributes & CONTROL_FLAG:
            return self._end_transaction(header, old, base_offset, batch)
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        epoch, sequence = header.producer_epoch, header.base_sequence
        # Sequence numbers wrap to 0, not to negative numbers (`DefaultRecordBatch.incrementSequence`).
        last_sequence = (sequence + delta) & INT32_MAX if sequence >= 0 else sequence
        added = new_batch((sequence, last_sequence, base_offset + delta, delta, timestamp))
        batches_of_epoch: tuple[BatchMetadata, ...] = ()
        coordinator_epoch, txn_first_offset = NO_COORDINATOR_EPOCH, NO_OFFSET
        if old is not None:
            old_epoch, batches, _, coordinator_epoch, txn_first_offset = old
            # Batches of an older epoch are dropped, because the producer can no longer repeat them.
            if old_epoch == epoch:
                batches_of_epoch = batches[-_RETAINED_BEFORE_APPEND:]
        if txn_first_offset < 0 and header.attributes & TRANSACTIONAL_FLAG:
            txn_first_offset = self._ongoing[producer_id] = base_offset
            self._transactions_changed = True
        self._producers[producer_id] = new_entry(
            (epoch, (*batches_of_epoch, added), timestamp, coordinator_epoch, txn_first_offset)
        )
        return None

    def find_incomplete(self) -> set[int]:
        """Return the ids of producers that may have written more batches than were loaded from a snapshot."""
        return {key for key, entry in self._producers.items() if not _is_complete(entry)}

    def add_earlier_batch(self, header: BatchHeader) -> bool:
        """Add an earlier batch of a producer if it directly precedes the batches already loaded.

        A snapshot contains only the last batch of each producer, but clients may repeat any of the last five. The owner
        calls this method for batches in reverse log order.

        Returns:
            Whether all batches that clients can repeat are loaded now.
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
            batch = BatchMetadata(first, last, header.last_offset, delta, header.max_timestamp)
            entry = self._producers[header.producer_id] = entry._replace(batches=(batch, *entry.batches))
        return _is_complete(entry)

    def _end_transaction(
        self, header: BatchHeader, old: ProducerStateEntry | None, offset: int, batch: memoryview
    ) -> AbortedTxn | None:
        producer_id = header.producer_id
        entry, marker_type = _apply_marker(header, old, batch)
        self._producers[producer_id] = entry
        first_offset = self._ongoing.get(producer_id)
        # There is nothing to index if the transaction wrote nothing to this log, or if compaction emptied its marker's
        # batch.
        if first_offset is None or marker_type is None:
            return None
        del self._ongoing[producer_id]
        self._transactions_changed = True
        if marker_type != _ABORT_MARKER:
            return None
        # The last field is the last stable offset after the marker (`ProducerStateManager.lastStableOffset`). Searches
        # in the index stop at it.
        return AbortedTxn(producer_id, first_offset, offset, next(iter(self._ongoing.values()), offset + 1))

    def commit(self) -> None:
        """Commit all staged updates."""
        self.staged.clear()
        # The oldest open transaction sets every reader's last stable offset, so compute it per commit, not per read.
        if self._transactions_changed:
            self._transactions_changed = False
            self.first_unstable_offset = next(iter(self._ongoing.values()), None)

    def rollback(self) -> None:
        """Undo all updates since the last `commit()`."""
        while self.staged:
            producer_id, old = self.staged.pop()
            if old is None:
                self._producers.pop(producer_id, None)
            else:
                self._producers[producer_id] = old
        if self._transactions_changed:
            self._find_ongoing()

    def _find_ongoing(self) -> None:
        """Rebuild the open transactions from the producers' states."""
        transactions = [
            (entry.current_txn_first_offset, producer_id)
            for producer_id, entry in self._producers.items()
            if entry.current_txn_first_offset >= 0
        ]
        self._ongoing = {producer_id: first_offset for first_offset, producer_id in sorted(transactions)}
        self._transactions_changed = False
        self.first_unstable_offset = next(iter(self._ongoing.values()), None)

    def remove_expired(self, now_ms: int) -> int:
        """Remove producers that have written nothing for `producer.id.expiration.ms`, and return their number.

        For a producer whose records have no timestamps, this time starts at the first call. Kafka removes such a
        producer immediately.
        """
        expired: list[int] = []
        for producer_id, entry in self._producers.items():
            if entry.last_timestamp < 0:
                self._producers[producer_id] = entry._replace(last_timestamp=now_ms)
                self._changed.add(producer_id)
            # Keep a producer with an open transaction. Without it, the last stable offset would advance past the
            # transaction.
            elif entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms:
                expired.append(producer_id)
        for producer_id in expired:
            del self._producers[producer_id]
        self._changed.update(expired)
        return len(expired)

    def take_snapshot(self, *, temporary: bool = False) -> None:
        """Write a snapshot at `map_end_offset`, unless a snapshot at or above that offset already exists.

        Args:
            temporary: whether the next snapshot replaces this one. Otherwise this one is kept as long as its segment.

        Raises:
            OSError: the file cannot be written; no partial file remains.
        """
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            if offset == self._temporary_snapshot and not temporary:
                self._temporary_snapshot = None
            return
        path = self._snapshot_path(offset)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                pwrite_all(fd, self._encoder.encode(self._producers, self._changed), 0)
                self._changed.clear()
            finally:
                os.close(fd)
        except OSError:
            # Remove a partial snapshot: the next start would read it, and its checksum would be wrong.
            self.delete_snapshot(offset)
            raise
        if offset not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, offset])
        self._last_snapshot_offset = offset
        # Delete the old snapshot only after the new one is written, so that a valid snapshot always exists.
        if self._temporary_snapshot is not None and self._temporary_snapshot != offset:
            self.delete_snapshot(self._temporary_snapshot)
        self._temporary_snapshot = offset if temporary else None

    def delete_snapshot(self, offset: int) -> None:
        """Remove a snapshot file, if it exists."""
        if offset in self.snapshots:
            self.snapshots.remove(offset)
        if offset == self._temporary_snapshot:
            self._temporary_snapshot = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._snapshot_path(offset))

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Remove all snapshots except those at a segment's base offset.

        The newest snapshot is also kept if it is above the last base offset. It becomes the temporary snapshot.
        """
        bases = set(segment_base_offsets)
        newest = max(self.snapshots, default=-1)
        self._temporary_snapshot = newest if newest > max(bases) else None
        for offset in self.snapshots[:]:
            if offset not in bases and offset != self._temporary_snapshot:
                self.delete_snapshot(offset)

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int, *, at_most: int | None = None
    ) -> None:
        """Load the newest valid snapshot at or below `log_end_offset` and, if given, `at_most`.

        The caller must then replay the log from `map_end_offset`, the offset of that snapshot or the log start offset.
        """
        for offset in self.snapshots[:]:
            # Snapshots above the end contain removed batches, and those at or below the start predate the log.
            if offset > log_end_offset or offset <= log_start_offset:
                self.delete_snapshot(offset)
        self._forget_producers()
        self.map_end_offset = self._last_snapshot_offset = log_start_offset
        for offset in reversed(self.snapshots[:]):
            if at_most is not None and offset > at_most:
                continue
            try:
                snapshot = read_file(self._snapshot_path(offset))
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
        """Remove all producers and snapshots, and continue at `offset`."""
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
        """Remove all snapshot files."""
        for snapshot in self.snapshots[:]:
            self.delete_snapshot(snapshot)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Adjust to a higher log start offset. No producers are removed."""
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self._last_snapshot_offset = max(self.snapshots, default=log_start_offset)

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def _is_complete(entry: ProducerStateEntry) -> bool:
    batches = entry.batches
    return not batches or len(batches) == NUM_BATCHES_TO_RETAIN or batches[0].first_sequence <= 0


def _apply_marker(
    header: BatchHeader, old: ProducerStateEntry | None, batch: memoryview
) -> tuple[ProducerStateEntry, int | None]:
    """Return the producer's state after a commit or abort marker, and the type of the marker.

    A marker with a new epoch also discards the batches of the old epoch. The type is None for a marker that compaction
    emptied after removing its transaction.
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
