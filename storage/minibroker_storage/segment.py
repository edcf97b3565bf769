"""One segment of a log. The order of its writes makes an index entry a proof that its batch is complete.

This is one file of more than 500 lines because writes, rollback and recovery all depend on that order.
"""

import contextlib
from collections.abc import Iterator
from typing import Final, Self

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import NO_TIMESTAMP, RECORD_BATCH_OVERHEAD, BatchHeader, read_entry_header
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.config import LogConfig
from minibroker_storage.entries import WALK_WINDOW_BYTES, EntryPosition, find_entry, read_batch_containing, read_headers
from minibroker_storage.errors import CorruptIndexError, LogClosedError, StorageError
from minibroker_storage.files import FileHandle, FilePool, pwrite_all, pwritev_all
from minibroker_storage.index_file import IndexState
from minibroker_storage.index_writer import IndexWriter
from minibroker_storage.layout import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    rename_if_exists,
)
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.portability import os
from minibroker_storage.time_index import TimeIndex, TimeIndexEntry
from minibroker_storage.transaction_index import AbortedTxn, TransactionIndex

RECENT_BATCHES: Final = 64
"""Number of batches after which the older generation of remembered positions is dropped."""

_NS_PER_MS: Final = 1_000_000
_NO_RESUME: Final = (0, 0, -1)
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC


class LogSegment(IndexWriter):
    """Batches from `base_offset` on: `<20 digits>.log`, `.index`, `.timeindex` (Kafka's `LogSegment`).

    The log file contains entries from position 0 without gaps between them. Offsets ascend, but may have gaps.
    Entries are v2 batches and messages of formats v0 and v1. Each such message counts as a batch whose base and
    last offset are equal. Staged batches are views of the caller's buffers, which `commit()` writes in one call.

    `commit()` writes the batches, then the transaction index, the time index and the offset index, each after the
    previous write has ended. After a process crash, an entry of the offset index therefore proves that its batch
    and all earlier ones are complete and covered by the other two indexes. Only the bytes after the last indexed
    batch must be checked. After a machine crash, this holds for everything that `LogFlush` has synced. All segments
    except the newest were complete before the next one began.

    A failed write is undone in the file and in memory. If the file cannot be truncated, the next write truncates it
    first.
    """

    __slots__ = (
        "_committed",
        "_index_states",
        "_must_truncate",
        "_older_positions",
        "_recent_positions",
        "_resume",
        "_views",
        "created_ms",
        "first_timestamp",
        "is_full",
        "log",
        "offset_index",
        "roll_jitter_ms",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        files: FilePool,
        *,
        flags: int = os.O_RDWR,
        suffix: str = "",
        size: int,
        created_ms: int,
    ) -> None:
        # Unlike `size`, `end` includes staged bytes.
        super().__init__(base_offset, index_interval_bytes=config.index_interval_bytes, end=size)
        stem = f"{directory}/{file_name(base_offset, '')}"
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(files.handle(stem + INDEX_SUFFIX + suffix, flags), base_offset, index_bytes)
        self.time_index = TimeIndex(files.handle(stem + TIME_INDEX_SUFFIX + suffix, flags), base_offset, index_bytes)
        self.log = files.handle(stem + LOG_SUFFIX + suffix, flags)
        transactions = files.handle(stem + TXN_INDEX_SUFFIX + suffix, os.O_RDWR | os.O_CREAT)
        self.transaction_index = TransactionIndex(transactions, base_offset)
        #: The time when the empty segment was created, in milliseconds. `segment.ms` counts from this time if the
        #: batches have no timestamps.
        self.created_ms = created_ms
        #: Size of the log file visible to readers, in bytes.
        self.size = size
        #: The segment rolls this long before `segment.ms` ends, so that not all logs roll at the same time.
        self.roll_jitter_ms = 0
        #: The max timestamp of the first batch, or None if unknown. `segment.ms` counts from this timestamp.
        self.first_timestamp: int | None = None
        #: Whether an index is full.
        self.is_full = False
        self._views: list[memoryview] = []
        self._committed = (0, NO_TIMESTAMP, base_offset)
        self._index_states: tuple[IndexState, IndexState, tuple[int, int]] | None = None
        self._must_truncate = False
        self._recent_positions: dict[int, int] = {}
        self._older_positions: dict[int, int] = {}
        self._resume = _NO_RESUME
        self.set_jitter(config)
        self._update_is_full()

    @classmethod
    def create(cls, directory: str, base_offset: int, config: LogConfig, files: FilePool, now_ms: int) -> Self:
        """Create an empty segment with preallocated indexes. Existing files of the same name are emptied.

        Raises:
            OSError: a file cannot be created.
        """
        segment = cls(directory, base_offset, config, files, flags=_NEW_FILE, size=0, created_ms=now_ms)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(segment.transaction_index.file.path)
            segment.log.fd()
            segment.preallocate_indexes()
        except OSError:
            segment.delete()
            raise
        return segment

    @classmethod
    def load(cls, directory: str, base: int, config: LogConfig, files: FilePool, now_ms: int, suffix: str = "") -> Self:
        """Open a segment with an existing log file, without loading its indexes.

        `suffix` is appended to the names of the segment's files.

        Raises:
            OSError: the log file does not exist.
        """
        size = os.stat(f"{directory}/{file_name(base, LOG_SUFFIX)}{suffix}").st_size
        return cls(directory, base, config, files, suffix=suffix, size=size, created_ms=now_ms)

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size})"

    def set_jitter(self, config: LogConfig) -> None:
        """Choose a random amount of time by which the segment is rolled early (`segment.jitter.ms`)."""
        limit = min(config.segment_jitter_ms, config.max_segment_ms)
        self.roll_jitter_ms = int.from_bytes(os.urandom(8), "big") % limit if limit > 0 else 0

    def stage(
        self, batch: memoryview, base_offset: int, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int
    ) -> None:
        """Stage a stamped batch or a message set for the next `commit()`. The buffer must not change until then.

        `base_offset` is the offset of the first record. See `add_batch` for the other arguments.
        """
        views = self._views
        if not views:
            # Save this state only before the first staged batch, because a rollback undoes all staged batches.
            self._committed = (self._bytes_since_index_entry, self.max_timestamp, self.offset_of_max_timestamp)
        views.append(batch)
        recent = self._recent_positions
        recent[base_offset] = self.end
        if len(recent) >= RECENT_BATCHES:
            # Keep two generations of positions instead of an LRU cache, because dropping the older generation takes no
            # time per batch.
            self._older_positions = recent
            self._recent_positions = {}
        self.add_batch(len(batch), last_offset, max_timestamp, offset_of_max_timestamp)

    def _add_index_entry(self, last_offset: int) -> None:
        self._save_index_states()
        self.offset_index.stage(last_offset, self.end)
        self.time_index.maybe_stage(self.max_timestamp, self.offset_of_max_timestamp)
        self._update_is_full()

    def stage_aborted(self, transaction: AbortedTxn) -> None:
        """Stage a transaction index entry for the next `commit()`. Its abort marker must have been staged before."""
        self._save_index_states()
        self.transaction_index.stage(transaction)

    def _save_index_states(self) -> None:
        """Save the state of the indexes before the first staged entry. Entries are rare, so most commits skip this."""
        if self._index_states is None:
            self._index_states = self.offset_index.state, self.time_index.state, self.transaction_index.state

    def commit(self) -> None:
        """Write the staged batches, then the index entries.

        Raises:
            OSError: a write failed. The caller must then call `rollback()`.
        """
        views, fd = self._views, self.log.fd()
        # An earlier failed write may have left bytes above `size`. If new batches covered only part of them, the rest
        # could look like a batch.
        if self._must_truncate:
            self._truncate_failed_write()
        if len(views) == 1:
            pwrite_all(fd, views[0], self.size)
        else:
            pwritev_all(fd, views, self.size)
        if self._index_states is not None:
            self.commit_indexes()
        self.size = self.end
        views.clear()

    def commit_indexes(self) -> None:
        """Write the staged index entries.

        The offset index is written last because its entries prove that those of the other indexes are complete.

        Raises:
            OSError: a write failed.
        """
        # Recovery checks only the log after the last offset index entry, so the other indexes must be written before
        # that entry.
        self.transaction_index.commit()
        self.time_index.commit()
        self.offset_index.commit()
        self._index_states = None

    def rollback(self) -> None:
        """Undo everything since the last `commit()`, in the file and in memory. Never raises."""
        if not self._views:
            return
        self._views.clear()
        # For simplicity, this also drops the positions of committed batches, which the index can still find.
        self._recent_positions = {}
        self._older_positions = {}
        self.end = self.size
        self._bytes_since_index_entry, self.max_timestamp, self.offset_of_max_timestamp = self._committed
        if self._index_states is not None:
            self.offset_index.rollback(self._index_states[0])
            self.time_index.rollback(self._index_states[1])
            self.transaction_index.rollback(self._index_states[2])
            self._index_states = None
            self._update_is_full()
        try:
            os.ftruncate(self.log.fd(), self.size)
        except (OSError, LogClosedError):
            self._must_truncate = True  # The next commit() tries again before it writes.

    def _truncate_failed_write(self) -> None:
        """Truncate the bytes of a failed write that rollback() could not truncate.

        Raises:
            OSError: the file cannot be truncated.
        """
        if self._must_truncate:
            os.ftruncate(self.log.fd(), self.size)
            self._must_truncate = False

    def _update_is_full(self) -> None:
        self.is_full = self.offset_index.is_full or self.time_index.is_full

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int) -> bool:
        """Return whether a batch needs a new segment, by the rules of Kafka's `LogSegment.shouldRoll`.

        A new segment is needed if the batch would exceed `segment.bytes`, if the batch is newer than the first batch by
        more than `segment.ms` minus the jitter (without timestamps, the segment's age counts), if an index is full, or
        if the batch's offset is too far from the base offset.
        """
        return (
            self.end + size > config.segment_bytes
            or (self.end > 0 and self._waited_ms(max_timestamp, now_ms) > config.max_segment_ms - self.roll_jitter_ms)
            or self.is_full
            or last_offset - self.base_offset > INT32_MAX
        )

    def read_first_timestamp(self) -> int | None:
        """Return the max timestamp of the first batch, reading its header if necessary, or None for an empty segment.

        Raises:
            OSError: the file cannot be read.
            DecodeError: there is no complete header.
        """
        if self.first_timestamp is None and self.size:
            self.first_timestamp = self.header_at(0).max_timestamp
        return self.first_timestamp

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        first = self.read_first_timestamp()
        if first is not None and first >= 0:
            return max_timestamp - first
        # Without timestamps (format v0), Kafka's `timeWaitedForRoll` counts from the creation of the segment.
        return now_ms - self.created_ms

    def become_inactive(self) -> None:
        """Prepare the segment for a roll or close.

        Failed writes are truncated, the largest timestamp is added to the time index, and both indexes are trimmed.

        Raises:
            OSError: a write failed. The segment stays usable, and the next call continues.
        """
        self._truncate_failed_write()
        before = self.time_index.state
        try:
            # The last entry must contain the segment's largest timestamp, because retention and start-up read only that
            # entry.
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self.offset_index.trim()
            self.time_index.trim()
        except OSError:
            self.time_index.rollback(before)
            raise

    def trim_free_slots(self) -> None:
        """Trim the loaded indexes of a closed segment that were left untrimmed when the broker was killed.

        Raises:
            OSError: a file cannot be truncated.
        """
        self.offset_index.trim_free_slots()
        self.time_index.trim_free_slots()

    def preallocate_indexes(self) -> None:
        """Extend both index files to their full size, for an active segment.

        Raises:
            OSError: a file cannot be extended.
        """
        self.offset_index.preallocate()
        self.time_index.preallocate()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove all batches that contain records at or above `offset`, and restore the indexes' full size.

        Raises:
            OSError: a file cannot be truncated.
        """
        # Look up the position before truncating the indexes, because the look-up needs them.
        entry = self.translate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if entry is not None:
            os.ftruncate(self.log.fd(), entry.position)
            self.size = self.end = entry.position
        if not self.size:
            self.created_ms = now_ms
        self.first_timestamp = None
        self._recent_positions = {}
        self._older_positions = {}
        self._resume = _NO_RESUME
        self._bytes_since_index_entry = 0
        self._load_max_timestamp()
        self._update_is_full()

    def recent_position(self, base_offset: int) -> int | None:
        """Return the position of a recent batch with this base offset, or None. No file is accessed."""
        position = self._recent_positions.get(base_offset)
        return self._older_positions.get(base_offset) if position is None else position

    @property
    def largest_timestamp(self) -> TimeIndexEntry:
        """The largest timestamp visible to readers, and the last offset of the first batch that contains it."""
        if self._views:
            # ListOffsets and retention must not use the timestamp of a batch that could still be undone.
            return TimeIndexEntry(self._committed[1], self._committed[2])
        return TimeIndexEntry(self.max_timestamp, self.offset_of_max_timestamp)

    @property
    def newest_time_ms(self) -> int:
        """The largest timestamp or, without timestamps, the log file's modification time, in ms.

        Raises:
            OSError: the modification time cannot be read.
        """
        timestamp = self.largest_timestamp.timestamp
        return timestamp if timestamp >= 0 else os.stat(self.log.path).st_mtime_ns // _NS_PER_MS

    def translate(self, offset: int) -> EntryPosition | None:
        """Find the first batch whose last offset is at or above `offset` (`translateOffset`).

        Return None if there is no such batch. The search usually takes one index look-up in memory and one read of the
        log. A reader that continues at the boundary set by `resume_at` needs only one read of a batch header.

        Raises:
            OSError: a file cannot be read.
            StorageError: the log contains bytes that are not batches.
        """
        # A consumer that reads sequentially requests the batch after the last one it was sent. Find it without
        # a search.
        position, first, last = self._resume
        if first <= offset <= last and position < self.size:
            entry = read_batch_containing(self.log.fd(), position, offset)
            if entry is not None:
                return entry
        position, next_position = self.offset_index.positions_around(offset)
        # Try the next index entry first, because most large batches have their own entry.
        if position + WALK_WINDOW_BYTES <= next_position < self.size:
            entry = read_batch_containing(self.log.fd(), next_position, offset)
            if entry is not None:
                return entry
        return find_entry(self.log.fd(), position, self.size, offset, self.log.path)

    def resume_at(self, position: int, first: int, last: int) -> None:
        """Remember the batch boundary where a read ended, because the same reader probably continues there.

        That reader will request an offset in `first`..`last`. A request for any other offset comes from another reader.
        """
        self._resume = (position, first, last)

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that contains `offset`, or else the end of the log file.

        Readers may read up to this position.
        """
        position = self.recent_position(offset)
        if position is not None:
            return position
        entry = self.translate(offset)
        return self.size if entry is None else entry.position

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`.

        Raises:
            OSError: the file cannot be read.
            DecodeError: there is no complete header at that position.
        """
        return read_entry_header(os.pread(self.log.fd(), RECORD_BATCH_OVERHEAD, position))

    def batch_at(self, position: int) -> memoryview:
        """Return the bytes of the batch at `position`.

        Raises:
            OSError: the file cannot be read.
        """
        size = self.header_at(position).size_in_bytes
        return memoryview(os.pread(self.log.fd(), size, position))

    def headers_from(
        self, position: int, window_bytes: int = WALK_WINDOW_BYTES, *, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from `position` up to `end`.

        Raises:
            OSError: the file cannot be read.
            StorageError: the bytes are not batches.
        """
        end = self.size if end is None else end
        if position < end:  # An empty segment may have no file yet.
            with self.log as fd:
                yield from read_headers(fd, position, end, self.log.path, window_bytes)

    def next_offset(self) -> int:
        """Return the offset after the last batch, reading the headers after the last index entry.

        Raises:
            StorageError: the log contains bytes that are not batches.
            OSError: the file cannot be read.
        """
        last = self.base_offset - 1
        for _, header in self.headers_from(self.offset_index.last_position):
            last = header.last_offset
        return last + 1

    def load_indexes(self, next_base_offset: int | None) -> None:
        """Load both indexes and check their ends, for a segment that need not be recovered.

        The log is read only if the time index is empty.

        Args:
            next_base_offset: base offset of the following segment, or None.

        Raises:
            CorruptIndexError, FileNotFoundError: an index must be rebuilt.
        """
        for index in (self.offset_index, self.time_index):
            index.load()
            index.sanity_check(self.size, next_base_offset)
        self._load_indexed_timestamp()
        self._update_is_full()

    def _load_indexed_timestamp(self) -> None:
        """Set the largest timestamp from the last time index entry, which roll, close and recovery write.

        An empty time index is valid for a segment without timestamps, and also for timestamp 0, because an entry of
        zeros does not count.

        Raises:
            CorruptIndexError: the index is empty, but the first batch has a larger timestamp.
        """
        index = self.time_index
        self.max_timestamp, self.offset_of_max_timestamp = index.last_timestamp, index.last_offset
        if not index.entries and self.size:
            try:
                first = self.header_at(0)
            except DecodeError as error:
                raise StorageError(f"{self.log.path}: {error}") from None
            if first.max_timestamp > 0:
                raise CorruptIndexError(f"{index.file.path}: no entry, but timestamp {first.max_timestamp} is there")
            self.max_timestamp, self.offset_of_max_timestamp = first.max_timestamp, first.last_offset

    def _load_max_timestamp(self) -> None:
        """Set the largest timestamp from the time index and the headers after the last entry."""
        index = self.time_index
        self.max_timestamp, self.offset_of_max_timestamp = index.last_timestamp, index.last_offset
        start = self.offset_index.lookup(index.last_offset).position if index.entries else 0
        for _, header in self.headers_from(start):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    def resume_indexes(self, below: int) -> None:
        """Keep the index entries below the offset `below`, and continue the segment from the last indexed batch.

        The time index may already cover later batches. The owner must then read the log from `end` on, call
        `skip_batches` for batches that are already indexed and `add_batch` for the others, and finally call
        `finish_scan`.

        Raises:
            CorruptIndexError, FileNotFoundError, StorageError: the indexes must be rebuilt with `reset_indexes`.
        """
        index, times = self.offset_index, self.time_index
        index.load()
        times.load()
        # Drop the entries above the recovery point. After a machine crash, they may be on disk without their batches.
        index.truncate_to(below)
        index.sanity_check(self.size, None)
        # Without an offset index entry, nothing proves that the time index is correct.
        times.truncate_to(below if index.entries else self.base_offset)
        times.drop_torn_entry()
        times.sanity_check(self.size, None)
        times.check_end()
        self._restart_at(index.last_position)
        if index.entries:
            self._load_indexed_timestamp()

    def reset_indexes(self) -> None:
        """Empty both indexes, so that recovery can rebuild them with `add_batch`.

        Raises:
            OSError: a file cannot be truncated.
        """
        for index in (self.offset_index, self.time_index):
            try:
                index.clear()
            except FileNotFoundError:
                os.close(os.open(index.file.path, os.O_RDWR | os.O_CREAT, 0o644))
                index.clear()
        self._restart_at(0)

    def _restart_at(self, end: int) -> None:
        self.end = end
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self.first_timestamp = None
        self._bytes_since_index_entry = 0
        self._update_is_full()

    def finish_scan(self, next_offset: int) -> None:
        """Truncate the log file after the batches counted by `add_batch`, and write the index entries.

        Args:
            next_offset: the offset after the last batch.

        Raises:
            CorruptIndexError: a resumed time index refers to `next_offset` or later.
            OSError: a file cannot be written or truncated.
        """
        if self.time_index.entries and self.time_index.last_offset >= next_offset:
            raise CorruptIndexError(f"{self.time_index.file.path}: tells of offset {self.time_index.last_offset}")
        # Bytes after the last valid batch were never acknowledged, or were lost in the machine crash.
        if self.end != self.size:
            os.ftruncate(self.log.fd(), self.end)
            self.size = self.end
        self.commit_indexes()
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self._bytes_since_index_entry = 0
        self._update_is_full()

    def close_files(self) -> None:
        """Close the files without writing. A pinned file's descriptor is closed by its last reader."""
        for handle in self.handles:
            handle.close()

    def delete(self) -> None:
        """Remove the files. Readers that have pinned the log are not affected, and missing files are not an error.

        Raises:
            OSError: a file cannot be removed.
        """
        for handle in self.handles:
            handle.delete()

    def set_aside(self) -> list[str]:
        """Rename the files to `.deleted`, close them, and return their new paths.

        Renaming is quick for files of any size, and readers that have pinned the log are not affected. The log file is
        renamed first. After a crash, indexes without a log file and `.deleted` files count as leftovers.

        Raises:
            OSError: a file cannot be renamed.
        """
        renamed: list[str] = []
        for handle in self.handles:
            target = handle.path + DELETED_SUFFIX
            if rename_if_exists(handle.path, target):
                renamed.append(target)
            handle.close()
        return renamed

    @property
    def handles(self) -> tuple[FileHandle, ...]:
        """The file handles in write order, the log first. Some of the files may not exist."""
        return self.log, self.transaction_index.file, self.time_index.file, self.offset_index.file
