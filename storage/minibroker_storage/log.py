"""One partition's log: appends at its end, reads from anywhere in it (Kafka's `UnifiedLog` and `LocalLog`)."""

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Self

from minibroker_protocol.records import BatchHeader, stamp
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.checkpoints import LeaderEpochCheckpoint, fsync_directory
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import LogClosedError, LogWriteError, OffsetOutOfRangeError, RecordBatchTooLargeError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, delete_directory_name
from minibroker_storage.lookup import TimestampOffset, find_by_timestamp, find_max_timestamp
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.recovery import LoadedLog, load_log, replay_producers
from minibroker_storage.segment import LogSegment, LogSlice

AppendListener = Callable[["Log"], None]

_ALWAYS_LOOK: Final = -2
"""A limit that every batch exceeds: the first batch of a segment has not said yet when the segment's time is over."""


class Log:
    """The batches of one partition, in segments, with the offsets that clients see.

    Appends are staged: `append` stamps a batch and assigns its offset, `commit` writes all staged batches in one call
    and lets readers see them. The caller commits before the buffers of the batches are used again. There are no
    replicas, so that the high watermark is the log end offset as soon as a commit returns.

    Bytes: a directory `<topic>-<partition>`; see `LogSegment`, `OffsetIndex`, `TimeIndex`, `ProducerStateManager` and
    `LeaderEpochCheckpoint`. Crash rule: what `commit` has written survives a crash of the process, what `flush` has
    written one of the machine; a torn end is cut when the log is opened with `clean=False`.
    A failed write is undone: the log then is as it was before the staged appends, and takes appends again.

    Not thread-safe: one event loop owns a log.
    """

    __slots__ = (
        "_active",
        "_bases",
        "_byte_limit",
        "_closed",
        "_config",
        "_directory",
        "_empty",
        "_epoch",
        "_failure",
        "_files",
        "_listeners",
        "_next_offset",
        "_offset_limit",
        "_roll_after",
        "_staged_epochs",
        "epochs",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "segments",
    )

    def __init__(self, directory: str, config: LogConfig, files: FilePool, loaded: LoadedLog) -> None:
        self._directory = directory
        self._config = config
        self._files = files
        self._closed = False
        #: Segments, ascending; the last one takes the appends.
        self.segments: list[LogSegment] = loaded.segments
        self.producers: ProducerStateManager = loaded.producers
        self.epochs: LeaderEpochCheckpoint = loaded.epochs
        #: The first offset that clients may read.
        self.log_start_offset: int = loaded.log_start_offset
        #: The offset that the next committed record gets.
        self.log_end_offset: int = loaded.log_end_offset
        #: Readers see what lies below.
        self.high_watermark: int = loaded.log_end_offset
        self._next_offset: int = loaded.log_end_offset
        self._epoch = self.epochs.latest_epoch
        self._staged_epochs: LeaderEpochCheckpoint | None = None
        self._failure: LogWriteError | None = None
        self._listeners: dict[AppendListener, None] = {}
        self._segments_changed()

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        config: LogConfig,
        files: FilePool,
        clean: bool,
        now_ms: int,
        log_start_offset: int = 0,
    ) -> Self:
        """Open the log in an existing directory; see `load_log` for what `clean` means and what is repaired.

        `log_start_offset` is the one that the broker checkpointed. `OSError`, `UnsupportedLogFormatError`.
        """
        loaded = load_log(directory, config, files, clean=clean, now_ms=now_ms, log_start_offset=log_start_offset)
        return cls(directory, config, files, loaded)

    def __repr__(self) -> str:
        return f"Log({self._directory!r}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def directory(self) -> str:
        """Where the files are."""
        return self._directory

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided: what read_committed consumers see."""
        return self.high_watermark

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self.segments)

    @property
    def config(self) -> LogConfig:
        """The configuration in force. A new one counts from the next batch; index sizes from the next segment."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.producers.set_expiration_ms(config.producer_id_expiration_ms)
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes
        self._set_limits()

    def _segments_changed(self) -> None:
        self._bases = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]
        self._empty = LogSlice(self._active.log, 0, 0)
        self._set_limits()

    def _set_limits(self) -> None:
        self._byte_limit = -1 if self._closed else self._config.segment_bytes
        self._offset_limit = self._active.base_offset + INT32_MAX
        self._roll_after = _ALWAYS_LOOK

    # Appending

    def append(self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int) -> int:
        """Stage one whole, valid v2 batch with its header as it arrived; returns the base offset that it gets.

        The bytes are stamped in place and must stay as they are until `commit`. Idempotent producers' batches went
        through `producers.check` before. May roll, which commits what was staged. `RecordBatchTooLargeError` when no
        segment can hold it. `LogWriteError` when rolling failed: the batch is not staged; if batches staged before
        are lost with it, `commit` says so too.
        """
        base_offset = self._next_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        segment = self._active
        if (
            segment.end + len(batch) > self._byte_limit
            or max_timestamp > self._roll_after
            or last_offset > self._offset_limit
            or segment.is_full
            or leader_epoch != self._epoch
        ):
            self._prepare(len(batch), header, leader_epoch, now_ms)
            segment = self._active
        stamp(batch, base_offset, leader_epoch)
        if header.producer_id >= 0:
            self.producers.update(header, base_offset, batch)
        segment.stage(batch, base_offset, last_offset, max_timestamp)
        self._next_offset = last_offset + 1
        return base_offset

    def _prepare(self, size: int, header: BatchHeader, leader_epoch: int, now_ms: int) -> None:
        """What `append` needs now and then: a new segment, the segment's clock, a new leader epoch."""
        if self._closed:
            raise LogClosedError(f"{self._directory}: closed")
        if self._failure is not None:
            raise self._failure
        if size > self._config.segment_bytes:
            raise RecordBatchTooLargeError(f"a batch of {size} bytes in segments of {self._config.segment_bytes}")
        base_offset, max_timestamp = self._next_offset, header.max_timestamp
        last_offset = base_offset + header.last_offset_delta
        if self._active.should_roll(size, last_offset, max_timestamp, self._config, now_ms):
            try:
                self.commit()
            except LogWriteError as error:
                self._fail(error)
                raise
            self._roll(now_ms)
        segment = self._active
        if not segment.end:
            segment.first_timestamp = max_timestamp
        if segment.first_timestamp is not None and segment.first_timestamp >= 0:
            self._roll_after = segment.first_timestamp + self._config.segment_ms
        if leader_epoch != self._epoch:
            if self._staged_epochs is None:
                self._staged_epochs = self.epochs.copy()
            self._staged_epochs.assign(leader_epoch, base_offset)
            self._epoch = leader_epoch

    def commit(self) -> None:
        """Write what is staged, move the log end offset and the high watermark, call the listeners.

        `LogWriteError` when a write fails, now or while rolling since the last commit: everything that was not
        written yet is undone, in the files and in memory; see the error's `log_end_offset` for what was. The log goes
        on.
        """
        if self._failure is not None:
            error, self._failure = self._failure, None
            self._undo_staged()
            raise error
        if self._next_offset == self.log_end_offset:
            return
        try:
            if self._staged_epochs is not None:
                self._staged_epochs.write()
            self._active.commit()
        except (OSError, LogClosedError) as error:
            self._undo_staged()
            # Frames of the traceback would keep the caller's buffers from being resized for as long as the error lives.
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error.with_traceback(None)
        if self._staged_epochs is not None:
            self.epochs, self._staged_epochs = self._staged_epochs, None
        self.producers.commit()
        self.log_end_offset = self.high_watermark = self._next_offset
        if self._listeners:
            for listener in tuple(self._listeners):
                listener(self)

    def _fail(self, error: LogWriteError) -> None:
        """Remember for `commit` that batches staged before were lost inside `append`; until then nothing goes."""
        self._failure = error
        self._byte_limit = -1

    def _undo_staged(self) -> None:
        self._active.rollback()
        self.producers.rollback()
        self._staged_epochs = None
        self._epoch = self.epochs.latest_epoch
        self._next_offset = self.log_end_offset
        self._set_limits()

    def add_append_listener(self, listener: AppendListener) -> None:
        """Have `listener` called with this log after each commit that moved the high watermark, and when it closes.

        Takes constant time.
        """
        self._listeners[listener] = None

    def remove_append_listener(self, listener: AppendListener) -> None:
        """Stop calling `listener`; one that is not there is no error. Takes constant time, also from a listener."""
        self._listeners.pop(listener, None)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, min_one_batch: bool = True, end_offset: int | None = None
    ) -> LogSlice:
        """Where the bytes from `offset` on are: the start of the batch that holds it, and how many bytes to take.

        At most `max_bytes`, ending with a whole batch where the index knows one (Kafka cuts it), but with
        `min_one_batch` at least the first one whole; never past the high watermark or the batch of `end_offset`; from
        one segment only. A gap is skipped. The bytes are not touched. At the end the slice is empty.
        `OffsetOutOfRangeError` below the log start or above the log end offset. `OSError`.
        """
        limit = self.high_watermark
        if end_offset is not None and end_offset < limit:
            limit = end_offset
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        if offset >= limit:
            return self._empty
        segment = self._active
        position = segment.recent_position(offset)
        first_size = 0
        if position is None:
            number = bisect_right(self._bases, offset) - 1
            segment = self.segments[max(number, 0)]
            found = segment.translate(offset)
            while found is None:
                number += 1
                if number == len(self.segments):
                    return self._empty
                segment = self.segments[number]
                found = segment.translate(offset)
            _, position, first_size = found
        size = (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - position
        if size > max_bytes:
            if min_one_batch:
                first_size = first_size or segment.header_at(position).size_in_bytes
                size = min(size, max(max_bytes, first_size))
            else:
                size = max_bytes
            if size > first_size:
                # What is cut off here would be sent twice: readers drop a batch that is not whole and ask for it again.
                whole = segment.offset_index.position_at_or_below(position + size) - position
                size = whole if whole > 0 else size
        return LogSlice(segment.log, position, size) if size > 0 else self._empty

    def find_by_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record with a timestamp (ms) >= `timestamp`; see `lookup.find_by_timestamp`."""
        return find_by_timestamp(self.segments, timestamp, self.log_start_offset)

    def find_max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp; see `lookup.find_max_timestamp`."""
        return find_max_timestamp(self.segments)

    # Segments

    def roll(self, now_ms: int) -> LogSegment:
        """Commit, then begin a new segment at the end unless the active one is empty. `LogWriteError`."""
        self.commit()
        if self._active.size:
            self._roll(now_ms)
        return self._active

    def _roll(self, now_ms: int) -> None:
        active = self._active
        if not active.size and active.base_offset == self.log_end_offset:
            return  # its indexes are too small for a single entry: a new segment would be no better
        try:
            segment = LogSegment.create(self._directory, self.log_end_offset, self._config, self._files, now_ms)
            try:
                active.become_inactive()
            except OSError:
                segment.delete()
                raise
        except OSError as error:
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error
        self.segments.append(segment)
        self._segments_changed()
        self._take_snapshot()

    def _take_snapshot(self) -> None:
        self.producers.map_end_offset = self.log_end_offset
        with contextlib.suppress(OSError):  # recovery then replays from the snapshot before
            self.producers.take_snapshot()

    def delete_segments_below(self, offset: int) -> list[LogSegment]:
        """Remove the oldest segments that end at or below `offset`, never the active one; returns them.

        The log start offset moves up to the first segment that is left. Pinned files stay readable. `OSError`.
        """
        count = 0
        while count + 1 < len(self.segments) and self.segments[count + 1].base_offset <= offset:
            count += 1
        removed = self.segments[:count]
        if removed:
            self.advance_log_start_offset(self.segments[count].base_offset)
            del self.segments[:count]
            self._segments_changed()
            for segment in removed:
                segment.delete()
                self.producers.delete_snapshot(segment.base_offset)
        return removed

    def advance_log_start_offset(self, offset: int) -> None:
        """Let the log begin at `offset` (DeleteRecords); a smaller one than now changes nothing. No segment is removed.

        `OffsetOutOfRangeError` above the high watermark.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.producers.on_log_start_offset_incremented(offset)
            if self.epochs.truncate_from_start(offset):
                self.epochs.write()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop everything from `offset` on, and with it the whole batch that holds it; the log then ends at `offset`.

        Staged batches are dropped, producers go back to that point. At or above the log end offset nothing is removed.
        `OSError`.
        """
        self._undo_staged()
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        keep = bisect_right(self._bases, offset)
        removed = self.segments[keep:]
        del self.segments[keep:]
        self.segments[-1].truncate_to(offset, now_ms)
        for segment in removed:
            segment.delete()
        self._ends_at(offset)
        self.producers.truncate_and_reload(self.log_start_offset, offset, now_ms)
        replay_producers(self.segments, self.producers, self.log_start_offset, offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and begin anew at `offset`. Producers are forgotten. `OSError`."""
        self._undo_staged()
        for segment in self.segments:
            segment.delete()
        self.segments[:] = [LogSegment.create(self._directory, offset, self._config, self._files, now_ms)]
        self.log_start_offset = offset
        self.producers.truncate_fully_and_start_at(offset)
        self._ends_at(offset)

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = self.high_watermark = self._next_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        if self.epochs.truncate_from_end(offset):
            self.epochs.write()
        self._epoch = self.epochs.latest_epoch
        self._segments_changed()

    # The end

    def flush(self) -> None:
        """Make all that is committed durable (fsync of the active segment, of those before it, and of the directory).

        `OSError`.
        """
        for segment in self.segments:
            segment.flush()
        fsync_directory(self._directory)

    def close(self) -> None:
        """Commit, trim the indexes, write a producer snapshot, close the files. A second call does nothing.

        Afterwards the directory opens with `clean=True`. `LogWriteError`, `OSError`; the files are closed even then.
        """
        if self._closed:
            return
        try:
            self.commit()
            self._active.become_inactive()
            self.producers.map_end_offset = self.log_end_offset
            self.producers.take_snapshot()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._closed = True
        self._byte_limit = -1
        listeners, self._listeners = tuple(self._listeners), {}
        for segment in self.segments:
            segment.close_files()
        for listener in listeners:
            listener(self)

    def delete(self) -> str:
        """Close without writing and rename the directory to `<topic>-<p>.<uuid>-delete`; returns its new path.

        Quick, whatever the log's size; `layout.purge` then removes the directory. Pinned files stay readable.
        `OSError`.
        """
        self._undo_staged()
        target = delete_directory_name(self._directory)
        os.rename(self._directory, target)
        self._close_files()
        self._directory = target
        self.producers.move(target)
        self.epochs.move(f"{target}/{LEADER_EPOCH_CHECKPOINT}")
        return target
