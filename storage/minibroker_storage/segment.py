"""One segment: batches, indexes, and the order of their writes, by which an index entry proves its batch."""

import contextlib
import os
from collections.abc import Iterator
from typing import Final, Self

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import NO_TIMESTAMP, RECORD_BATCH_OVERHEAD, BatchHeader, read_entry_header
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.config import LogConfig
from minibroker_storage.entries import (
    WALK_WINDOW_BYTES,
    EntryPosition,
    batch_that_holds,
    find_entry,
    read_headers,
)
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
)
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex, TimeIndexEntry
from minibroker_storage.transaction_index import AbortedTxn, TransactionIndex

RECENT_BATCHES: Final = 64
"""The positions of so many of the newest batches, up to twice as many, are known without a look at the index."""

_NO_RESUME: Final = (0, 0, -1)
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC


class LogSegment(IndexWriter[OffsetIndex, TimeIndex]):
    """A run of batches from `base_offset` on: `<20 digits>.log`, `.index`, `.timeindex` (Kafka's `LogSegment`).

    Bytes: log entries one behind the other, from position 0, offsets ascending, gaps allowed: v2 batches, and messages
    of formats v0 and v1, of which each counts as a batch whose base and last offset are its own. Batches are staged as
    views of the caller's buffers and written by `commit()` in one call.

    Crash rule: `commit()` writes the batches, then the transaction index, the time index, the offset index. Each
    write is over before the next one begins. So after the death of the process an entry of the offset index proves
    its batch, and all before it, to be whole, and known to the other two indexes. Only the bytes behind the last entry
    need a look. After the death of the machine this holds for what `LogFlush` has brought to disk before.
    All segments but the newest were complete before the next one began. A write that fails is undone in the file and
    in memory; bytes that cannot be cut away are overwritten by the next write, and cut before it.
    """

    __slots__ = (
        "_committed",
        "_cut_first",
        "_index_states",
        "_older",
        "_recent",
        "_resume",
        "_views",
        "created_ms",
        "first_timestamp",
        "is_full",
        "log",
        "roll_jitter_ms",
        "size",
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
        stem = f"{directory}/{file_name(base_offset, '')}"
        index_bytes = config.segment_index_bytes
        super().__init__(
            base_offset,
            OffsetIndex(files.handle(stem + INDEX_SUFFIX + suffix, flags), base_offset, index_bytes),
            TimeIndex(files.handle(stem + TIME_INDEX_SUFFIX + suffix, flags), base_offset, index_bytes),
            index_interval_bytes=config.index_interval_bytes,
            end=size,  # what is staged counts
        )
        self.log = files.handle(stem + LOG_SUFFIX + suffix, flags)
        transactions = files.handle(stem + TXN_INDEX_SUFFIX + suffix, os.O_RDWR | os.O_CREAT)
        self.transaction_index = TransactionIndex(transactions, base_offset)
        #: When an empty segment began to wait for its first batch, in ms: the clock of `segment.ms` without timestamps.
        self.created_ms = created_ms
        #: Bytes in the log file that readers may see.
        self.size = size
        #: So many ms before `segment.ms` is over it is time to roll, so that not all logs do it at once.
        self.roll_jitter_ms = 0
        #: Max timestamp of the first batch, which starts the clock of `segment.ms`; None until it is known.
        self.first_timestamp: int | None = None
        #: Whether an index takes no more entries.
        self.is_full = False
        self._views: list[memoryview] = []
        self._committed = (0, NO_TIMESTAMP, base_offset)
        self._index_states: tuple[IndexState, IndexState, tuple[int, int]] | None = None
        self._cut_first = False
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._resume = _NO_RESUME
        self.set_jitter(config)
        self._update_is_full()

    @classmethod
    def create(cls, directory: str, base_offset: int, config: LogConfig, files: FilePool, now_ms: int) -> Self:
        """A new empty segment with preallocated indexes. Leftovers of the same name are emptied. `OSError`."""
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
        """A segment whose log exists, with `suffix` behind its names; the indexes are to be loaded. `OSError`."""
        size = os.stat(f"{directory}/{file_name(base, LOG_SUFFIX)}{suffix}").st_size
        return cls(directory, base, config, files, suffix=suffix, size=size, created_ms=now_ms)

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size})"

    def set_jitter(self, config: LogConfig) -> None:
        """Draw the time by which the segment is rolled early (`segment.jitter.ms`)."""
        limit = min(config.segment_jitter_ms, config.max_segment_ms)
        self.roll_jitter_ms = int.from_bytes(os.urandom(8), "big") % limit if limit > 0 else 0

    def stage(
        self,
        batch: memoryview,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
    ) -> None:
        """Take a stamped batch, or a message set, for the next `commit()`. The view has to stay as it is until then.

        `base_offset` is the offset of the first record; see `note` for the others.
        """
        views = self._views
        if not views:
            # Saved with the first staged batch only: a rollback undoes all that is staged, never a part.
            self._committed = (self._bytes_since_index_entry, self.max_timestamp, self.offset_of_max_timestamp)
        views.append(batch)
        recent = self._recent
        recent[base_offset] = self.end
        if len(recent) >= RECENT_BATCHES:
            # Two generations in place of an LRU: dropping the older one costs nothing per batch.
            self._older = recent
            self._recent = {}
        self.note(len(batch), last_offset, max_timestamp, offset_of_max_timestamp)

    def _add_index_entry(self, last_offset: int) -> None:
        # Index entries are rare. Most commits have none, and then save and write no index state.
        if self._index_states is None:
            self._index_states = self._states()
        super()._add_index_entry(last_offset)
        self._update_is_full()

    def stage_aborted(self, transaction: AbortedTxn) -> None:
        """Take a transaction whose abort marker was staged, for the next `commit()`."""
        if self._index_states is None:
            self._index_states = self._states()
        self.transaction_index.stage(transaction)

    def _states(self) -> tuple[IndexState, IndexState, tuple[int, int]]:
        return self.offset_index.state, self.time_index.state, self.transaction_index.state

    def commit(self) -> None:
        """Write what is staged: the batches, then the index entries. After an `OSError` call `rollback()`."""
        views, fd = self._views, self.log.fd()
        # A write that failed has left bytes behind `size` that could not be cut away. If new batches covered them in
        # part, the rest might look like a batch of its own.
        if self._cut_first:
            self._cut_undone()
        if len(views) == 1:
            pwrite_all(fd, views[0], self.size)
        else:
            pwritev_all(fd, views, self.size)
        if self._index_states is not None:
            self.commit_indexes()
        self.size = self.end
        views.clear()

    def commit_indexes(self) -> None:
        """Write the staged index entries, those of the offset index last: they vouch for the others. `OSError`."""
        # The offset index last: recovery looks behind its last entry only, so this entry must not be there before the
        # others.
        self.transaction_index.commit()
        self.time_index.commit()
        self.offset_index.commit()
        self._index_states = None

    def rollback(self) -> None:
        """Undo everything since the last `commit()`, in the file and in memory. Never raises."""
        if not self._views:
            return
        self._views.clear()
        # Positions of staged batches are among them. Forgetting all is simple, and the index knows the rest.
        self._recent = {}
        self._older = {}
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
            self._cut_first = True  # before the next write

    def _cut_undone(self) -> None:
        """Cut off what could not be cut off when it was undone. `OSError`."""
        if self._cut_first:
            os.ftruncate(self.log.fd(), self.size)
            self._cut_first = False

    def _update_is_full(self) -> None:
        self.is_full = self.offset_index.is_full or self.time_index.is_full

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int) -> bool:
        """Whether a batch belongs into a new segment, by the conditions of Kafka's `LogSegment.shouldRoll`.

        The batch would grow the segment beyond `segment.bytes`; it is more than `segment.ms`, less the jitter, younger
        than the first batch (or, without timestamps, now is than the segment); an index is full; its offset is too far
        from the base offset.
        """
        return (
            self.end + size > config.segment_bytes
            or (self.end > 0 and self._waited_ms(max_timestamp, now_ms) > config.max_segment_ms - self.roll_jitter_ms)
            or self.is_full
            or last_offset - self.base_offset > INT32_MAX
        )

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        first = self.first_timestamp
        if first is None and self.size:
            first = self.first_timestamp = self.header_at(0).max_timestamp
        if first is not None and first >= 0:
            return max_timestamp - first
        # No timestamps (format v0): Kafka's `timeWaitedForRoll` then counts from the creation of the segment.
        return now_ms - self.created_ms

    def become_inactive(self) -> None:
        """Cut off what was undone, close the indexes with the largest timestamp, trim them; for roll and close.

        `OSError`: the segment goes on, and a later call closes it.
        """
        self._cut_undone()
        before = self.time_index.state
        try:
            # Its last entry must tell the largest timestamp of the segment: retention and a start read that one entry
            # only.
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self.offset_index.trim()
            self.time_index.trim()
        except OSError:
            self.time_index.rollback(before)
            raise

    def trim_free_slots(self) -> None:
        """Trim the loaded indexes of a segment that takes no more appends, if a kill has prevented it. `OSError`."""
        self.offset_index.trim_free_slots()
        self.time_index.trim_free_slots()

    def preallocate_indexes(self) -> None:
        """Give both index files their full size, for a segment that takes appends. `OSError`."""
        self.offset_index.preallocate()
        self.time_index.preallocate()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop all batches that hold `offset` or later ones; the indexes get their full size again. `OSError`."""
        # Before the indexes are cut: it is they that find the position.
        found = self.translate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if found is not None:
            os.ftruncate(self.log.fd(), found.position)
            self.size = self.end = found.position
        if not self.size:
            self.created_ms = now_ms
        self.first_timestamp = None
        self._recent = {}
        self._older = {}
        self._resume = _NO_RESUME
        self._bytes_since_index_entry = 0
        self._load_max_timestamp()
        self._update_is_full()

    # Reading

    def recent_position(self, base_offset: int) -> int | None:
        """Position of one of the newest batches by its base offset, if it is remembered. No file is touched."""
        position = self._recent.get(base_offset)
        return self._older.get(base_offset) if position is None else position

    @property
    def largest_timestamp(self) -> TimeIndexEntry:
        """Largest timestamp of what readers may see, and the last offset of the first batch that has it."""
        if self._views:
            # ListOffsets and retention must not see a timestamp whose batch may be undone yet.
            return TimeIndexEntry(self._committed[1], self._committed[2])
        return TimeIndexEntry(self.max_timestamp, self.offset_of_max_timestamp)

    def translate(self, offset: int) -> EntryPosition | None:
        """The first batch whose last offset is at or above `offset`, None when there is none (`translateOffset`).

        One look at the index, which mostly is in memory, then usually one read of the log; for a reader that goes on
        from `resume_at`, one read of a batch's head. `OSError`, `StorageError` for bytes that are not batches.
        """
        # A consumer that reads through the log asks for the batch behind its last answer: no search, one small read.
        position, first, last = self._resume
        if first <= offset <= last and position < self.size:
            found = batch_that_holds(self.log.fd(), position, offset)
            if found is not None:
                return found
        position, behind = self.offset_index.positions_around(offset)
        if position + WALK_WINDOW_BYTES <= behind < self.size:  # of large batches most have an entry
            found = batch_that_holds(self.log.fd(), behind, offset)
            if found is not None:
                return found
        return find_entry(self.log.fd(), position, self.size, offset, self.log.path)

    def resume_at(self, position: int, first: int, last: int) -> None:
        """Remember where a range that was read ended, which is where a batch begins: readers ask for that one next.

        They ask for one of the offsets `first`..`last`: a request for another one comes from another reader.
        """
        self._resume = (position, first, last)

    def position_of(self, offset: int) -> int:
        """Where the bytes before the batch of `offset` end: a limit for readers."""
        position = self.recent_position(offset)
        if position is not None:
            return position
        found = self.translate(offset)
        return self.size if found is None else found.position

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that starts at `position`. `OSError`, `DecodeError` when no header is there."""
        return read_entry_header(os.pread(self.log.fd(), RECORD_BATCH_OVERHEAD, position))

    def batch_at(self, position: int) -> memoryview:
        """The bytes of the batch that starts at `position`. `OSError`."""
        size = self.header_at(position).size_in_bytes
        return memoryview(os.pread(self.log.fd(), size, position))

    def headers_from(
        self, position: int, window_bytes: int = WALK_WINDOW_BYTES, *, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on, up to the one that begins at `end`.

        `OSError`, `StorageError` for bytes that are none.
        """
        end = self.size if end is None else end
        if position < end:  # an empty segment may have no file yet
            with self.log as fd:
                yield from read_headers(fd, position, end, self.log.path, window_bytes)

    def next_offset(self) -> int:
        """The offset behind the last batch, by the headers behind the last index entry. `StorageError`, `OSError`."""
        last = self.base_offset - 1
        for _, header in self.headers_from(self.offset_index.last_position):
            last = header.last_offset
        return last + 1

    def load_indexes(self, next_base_offset: int | None) -> None:
        """Read the ends of both indexes and judge them, for a segment that is not recovered.

        Touches the log only when the time index is empty.
        `CorruptIndexError`, `FileNotFoundError`: a rebuild is due. `next_base_offset` is that of the segment that
        follows.
        """
        for index in (self.offset_index, self.time_index):
            index.load()
            index.sanity_check(self.size, next_base_offset)
        self._adopt_indexed_timestamp()
        self._update_is_full()

    def _adopt_indexed_timestamp(self) -> None:
        """Take the largest timestamp from the time index, where roll, close and recovery put it.

        An empty one is right for a segment without timestamps. It is also what the time 0 comes to, because an entry
        of zeros is none. `CorruptIndexError` when the first batch says otherwise.
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
        """Take the largest timestamp from the time index and from the headers behind its last entry."""
        index = self.time_index
        self.max_timestamp, self.offset_of_max_timestamp = index.last_timestamp, index.last_offset
        start = self.offset_index.lookup(index.last_offset).position if index.entries else 0
        for _, header in self.headers_from(start):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    # Recovery

    def resume_indexes(self, below: int) -> None:
        """Keep the entries of the indexes below the offset `below`, and put the end at the last indexed batch.

        The time index may know of batches behind that one.
        The owner then goes through the log from `end` on, `pass_over`s what was indexed already, `note`s the rest and
        calls `adopt_noted_size`. `CorruptIndexError`, `FileNotFoundError`, `StorageError`: only `reset_indexes` helps.
        """
        index, times = self.offset_index, self.time_index
        index.load()
        times.load()
        # After a crash of the machine an entry above the recovery point may be on disk without its batch.
        index.truncate_to(below)
        index.sanity_check(self.size, None)
        # Without an entry in the offset index nothing vouches for the time index.
        times.truncate_to(below if index.entries else self.base_offset)
        times.drop_torn_entry()
        times.sanity_check(self.size, None)
        times.check_end()
        self._begin_anew(index.last_position)
        if index.entries:
            self._adopt_indexed_timestamp()

    def reset_indexes(self) -> None:
        """Empty both indexes, so that recovery can count the batches again with `note`. `OSError`."""
        for index in (self.offset_index, self.time_index):
            try:
                index.clear()
            except FileNotFoundError:
                os.close(os.open(index.file.path, os.O_RDWR | os.O_CREAT, 0o644))
                index.clear()
        self._begin_anew(0)

    def _begin_anew(self, end: int) -> None:
        self.end = end
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self.first_timestamp = None
        self._bytes_since_index_entry = 0
        self._update_is_full()

    def adopt_noted_size(self, next_offset: int) -> None:
        """Cut the log file behind the batches that `note` counted, and write the index entries. `OSError`.

        `CorruptIndexError` when a resumed time index has `next_offset`, behind the last batch, or of later ones.
        """
        if self.time_index.entries and self.time_index.last_offset >= next_offset:
            raise CorruptIndexError(f"{self.time_index.file.path}: tells of offset {self.time_index.last_offset}")
        # What lies behind the last good batch was never acknowledged, or was lost with the machine.
        if self.end != self.size:
            os.ftruncate(self.log.fd(), self.end)
            self.size = self.end
        self.commit_indexes()
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self._bytes_since_index_entry = 0
        self._update_is_full()

    # The files

    def close_files(self) -> None:
        """Give up the descriptors and write nothing. Pinned ones are closed by their last reader."""
        for handle in self.handles:
            handle.close()

    def delete(self) -> None:
        """Remove the files. Readers that have the log pinned read on. Missing files are no error. `OSError`."""
        for handle in self.handles:
            handle.delete()

    def set_aside(self) -> list[str]:
        """Rename the files to `.deleted`, which is quick whatever their size, and close them; returns the new paths.

        Readers that have the log pinned read on. Crash rule: the log goes first; indexes without a log are leftovers,
        and so are `.deleted` files. `OSError`.
        """
        renamed: list[str] = []
        for handle in self.handles:
            target = handle.path + DELETED_SUFFIX
            with contextlib.suppress(FileNotFoundError):
                os.rename(handle.path, target)
                renamed.append(target)
            handle.close()
        return renamed

    @property
    def handles(self) -> tuple[FileHandle, ...]:
        """Those of the files, in the order in which they are written: the log first. Some files may not be there."""
        return self.log, self.transaction_index.file, self.time_index.file, self.offset_index.file
