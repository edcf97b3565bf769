"""One partition's log: segments in a row, appended to at the end and read by offset (Kafka's `UnifiedLog`)."""

import os
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker_protocol.records import BatchHeader, stamp
from minibroker_storage.checkpoints import LeaderEpochCheckpoint
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import (
    CorruptCheckpointError,
    LogClosedError,
    LogWriteError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from minibroker_storage.files import FileHandle, FilePool
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, delete_directory_name
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.recovery import list_files, open_segments
from minibroker_storage.segment import LogSegment, TimestampOffset

_REMEMBERED_POSITIONS: Final = 64


class LogSlice(NamedTuple):
    """A range of a log file, to be sent from there. `handle` is to be pinned for as long as someone reads from it."""

    handle: FileHandle
    position: int
    size: int

    def read(self) -> bytes:
        """The bytes, for callers that need them in memory."""
        return os.pread(self.handle.fd(), self.size, self.position)


class Log:
    """The log of one partition, in a directory of its own.

    Appends are staged: `append` assigns offsets, stamps the bytes in place and remembers the views; `commit` writes them. What is
    not committed is not visible. `log_start_offset` <= `last_stable_offset` <= `high_watermark` <= `log_end_offset`; with a single
    replica and without transactions the last three are the same.

    Crash rule: what `commit` has written survives the death of the process; what a crash of the machine cuts or damages is cut off when the
    log is opened (see `recovery`).
    """

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        files: FilePool,
        segments: list[LogSegment],
        producers: ProducerStateManager,
        epochs: LeaderEpochCheckpoint,
    ) -> None:
        self.directory = directory
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.log_start_offset = segments[0].base_offset
        self.log_end_offset = 0
        self._config = config
        self._files = files
        self._bases = [segment.base_offset for segment in segments]
        self._next = 0  # the log's end with what is staged
        self._dirty = False
        self._failure: LogWriteError | None = None
        self._positions: dict[int, tuple[LogSegment, int]] = {}
        self._staged_positions: list[int] = []
        self._listeners: dict[Callable[[Log], None], None] = {}
        self._closed = False

    @classmethod
    def open(cls, directory: str, *, config: LogConfig, files: FilePool, clean: bool, now_ms: int) -> "Log":
        """Open the log in `directory` and recover it unless it was closed cleanly. OSError, StorageError."""
        bases, snapshots = list_files(directory)
        segments = open_segments(directory, bases or [0], config, files, clean=clean)
        epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        try:
            epochs.load()
        except CorruptCheckpointError:
            epochs.write()
        producers = ProducerStateManager(directory, config.producer_id_expiration_ms, snapshots)
        log = cls(directory, config, files, segments, producers, epochs)
        log._find_end()
        if epochs.truncate_from_end(log.log_end_offset):
            epochs.write()
        log._reload_producers(now_ms)
        return log

    @property
    def high_watermark(self) -> int:
        """The end of what readers may see."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of what readers of committed data may see."""
        return self.log_end_offset

    @property
    def size(self) -> int:
        """Bytes of committed batches."""
        return sum(segment.size for segment in self.segments)

    def append(self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int) -> int:
        """Stage one batch, which the caller has validated; returns its base offset.

        `batch` is stamped in place and must stay as it is until `commit`. LogWriteError when a roll on the way fails.
        """
        base = self._next
        last = base + header.last_offset_delta
        segment = self.segments[-1]
        if self._closed:
            raise LogClosedError(f"{self.directory}: closed")
        if segment.should_roll(len(batch), last, header.max_timestamp, now_ms):
            if len(batch) > self._config.segment_bytes:
                raise RecordBatchTooLargeError(f"{len(batch)} bytes do not fit into a segment of {self._config.segment_bytes}")
            segment = self.roll()
        if leader_epoch > self.epochs.latest_epoch:
            self._begin_epoch(leader_epoch, base)
        stamp(batch, base, leader_epoch)
        position = segment.stage(batch, last, header.max_timestamp)
        if header.producer_id >= 0:
            self.producers.update(header, base, batch)
        self._next = last + 1
        self._dirty = True
        positions = self._positions
        positions[base] = (segment, position)
        if len(positions) > _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]
        return base

    def commit(self) -> None:
        """Write what is staged and make it visible. LogWriteError when that fails, or failed at a roll since the last commit."""
        if self._dirty:
            self._write()
        failure, self._failure = self._failure, None
        for listener in tuple(self._listeners):
            listener(self)
        if failure is not None:
            raise failure

    def _write(self) -> None:
        self._dirty = False
        segment = self.segments[-1]
        try:
            segment.commit()
        except OSError as error:
            self._undo(segment)
            self._failure = LogWriteError(f"{segment.file.path}: {error.strerror}", self.log_end_offset)
            return
        self.producers.commit()
        self.log_end_offset = self._next

    def _undo(self, segment: LogSegment) -> None:
        self.producers.rollback()
        self._next = self.log_end_offset
        self._positions.clear()
        segment.rollback()

    def read(self, offset: int, max_bytes: int, *, min_one_batch: bool, end_offset: int | None = None) -> LogSlice:
        """The range from the start of the batch that holds `offset`, within one segment.

        At most `max_bytes`, but a whole batch if `min_one_batch`; it may end within a batch. OffsetOutOfRangeError.
        """
        segment = self.segments[-1]
        if offset == self.log_end_offset:
            return LogSlice(segment.file, segment.size, 0)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        known = self._positions.get(offset)
        segment, position = known if known is not None else self._locate(offset)
        stop = segment.size
        if end_offset is not None and end_offset < self.log_end_offset:
            bound, at = self._locate(end_offset)
            stop = at if bound is segment else stop
        size = min(stop - position, max_bytes)
        if min_one_batch and size < stop - position:
            size = max(size, min(segment.batch_size_at(position), stop - position))
        return LogSlice(segment.file, position, max(size, 0))

    def _locate(self, offset: int) -> tuple[LogSegment, int]:
        """The segment and position of the batch that holds `offset`, or of the first one behind it."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self.segments[number:]:
            position = segment.position_of(offset)
            if position < segment.size:
                return segment, position
        return self.segments[-1], self.segments[-1].size

    def find_by_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record with a timestamp (ms) of at least this."""
        for segment in self.segments:
            if segment.max_timestamp >= timestamp:
                found = segment.find_by_timestamp(timestamp, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of the log (KIP-734)."""
        timestamp = max(segment.max_timestamp for segment in self.segments)
        return self.find_by_timestamp(timestamp) if timestamp >= 0 else None

    def roll(self) -> LogSegment:
        """Close the active segment and begin the next one. LogWriteError."""
        if self._dirty:
            self._write()
            if self._failure is not None:
                raise self._failure
        active = self.segments[-1]
        try:
            active.seal()
            self.producers.map_end_offset = self._next
            self.producers.take_snapshot()
            segment = LogSegment(self.directory, self._next, self._config, self._files)
            segment.offset_index.preallocate()
            segment.time_index.preallocate()
            segment.file.fd()
        except OSError as error:
            self._failure = LogWriteError(f"{self.directory}: {error.strerror}", self.log_end_offset)
            raise self._failure from error
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self.producers.remove_stray_snapshots(self._bases)
        return segment

    def truncate_to(self, offset: int, now_ms: int = 0) -> None:
        """Drop the batches from the one that holds `offset` on."""
        self._settle()
        if offset >= self.log_end_offset:
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        while self.segments[-1].base_offset >= offset:
            self._drop_last()
        self.segments[-1].truncate_to(offset)
        self._find_end()
        if self.epochs.truncate_from_end(self.log_end_offset):
            self.epochs.write()
        self._reload_producers(now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty and begins at `offset`."""
        self._settle()
        while self.segments:
            self._drop_last()
        segment = LogSegment(self.directory, offset, self._config, self._files)
        segment.offset_index.preallocate()
        segment.time_index.preallocate()
        segment.file.fd()
        self.segments.append(segment)
        self._bases.append(offset)
        self.log_start_offset = offset
        self._find_end()
        self.epochs.entries = ()
        self.epochs.write()
        self.producers.truncate_fully_and_start_at(offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """Readers see the log from `offset` on; it never goes back. OffsetOutOfRangeError beyond the high watermark."""
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.producers.on_log_start_offset_incremented(offset)

    def add_append_listener(self, listener: "Callable[[Log], None]") -> None:
        """Call `listener` with the log after each commit."""
        self._listeners[listener] = None

    def remove_append_listener(self, listener: "Callable[[Log], None]") -> None:
        """Stop calling `listener`; not having been called is no error."""
        self._listeners.pop(listener, None)

    def flush(self) -> None:
        """Wait until the active segment is on the disk itself."""
        self._settle()
        os.fsync(self.segments[-1].file.fd())

    def close(self) -> None:
        """Close the log so that `open(clean=True)` may open it."""
        if self._closed:
            return
        self._settle()
        self._closed = True
        self.segments[-1].seal()
        self.producers.map_end_offset = self.log_end_offset
        self.producers.take_snapshot()
        self._close_files()

    def delete(self) -> str:
        """Close the log and rename its directory; returns the new name, for `layout.purge`. OSError."""
        self._closed = True
        self._close_files()
        renamed = delete_directory_name(self.directory)
        os.rename(self.directory, renamed)
        for listener in tuple(self._listeners):
            listener(self)
        return renamed

    def _close_files(self) -> None:
        for segment in self.segments:
            segment.close()

    def _settle(self) -> None:
        if self._dirty:
            self._write()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _drop_last(self) -> None:
        self.segments.pop().delete()
        self.producers.delete_snapshot(self._bases.pop())

    def _begin_epoch(self, leader_epoch: int, base: int) -> None:
        before = self.epochs.entries
        if self.epochs.assign(leader_epoch, base):
            try:
                self.epochs.write()
            except OSError as error:
                self.epochs.entries = before
                raise LogWriteError(f"{self.directory}: {error.strerror}", self.log_end_offset) from error

    def _find_end(self) -> None:
        """Set the log's end behind its last batch."""
        end = self.segments[-1].base_offset
        for segment in reversed(self.segments):
            last = segment.offset_index.last_position if segment.offset_index.entries else 0
            for header, _ in segment.batches(last):
                end = max(end, header.last_offset + 1)
            if segment.size:
                break
        self.log_end_offset = self._next = end
        self._positions.clear()

    def _reload_producers(self, now_ms: int) -> None:
        """Take the newest snapshot and replay the batches behind it."""
        producers = self.producers
        producers.truncate_and_reload(self.log_start_offset, self.log_end_offset, now_ms)
        start = producers.map_end_offset
        for segment in self.segments[max(bisect_right(self._bases, start) - 1, 0) :]:
            for found in segment.batches(segment.position_of(start)):
                header = found.header
                if header.producer_id >= 0 and header.base_offset >= start:
                    data = segment.read_batch(found).buffer if header.is_control else memoryview(b"")
                    producers.update(header, header.base_offset, data)
        producers.commit()
        producers.map_end_offset = self.log_end_offset
