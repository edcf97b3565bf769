"""The segments of one partition's log, and the bytes in them (Kafka's `LocalLog`)."""

from collections.abc import Sequence

from minibroker_storage.config import LogConfig
from minibroker_storage.errors import LogClosedError, LogWriteError
from minibroker_storage.files import FilePool, LogSlice
from minibroker_storage.flush import Durability, LogFlush
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT
from minibroker_storage.segment import LogSegment
from minibroker_storage.segments import LogSegments
from minibroker_storage.transaction_index import AbortedTxn


class LocalLog:
    """The segments of a log in its directory: where offsets lie in them, how segments come and go, and their fsync.

    `Log` stands on it and adds what clients see: which offsets they may read, producers and leader epochs. What is
    staged lies between `log_end_offset` and `next_offset`, in the active segment. Crash rule: see `LogSegment` and
    `LogSegments`.
    """

    __slots__ = (
        "_active",
        "_closed",
        "_config",
        "_directory",
        "_durability",
        "_empty",
        "_files",
        "_segments",
        "appended_bytes",
        "log_end_offset",
        "next_offset",
        "opened_at",
        "segments",
    )

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        files: FilePool,
        segments: list[LogSegment],
        *,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self._directory = directory
        self._config = config
        self._files = files
        self._closed = False
        self._segments = LogSegments(directory, segments)
        self._take_active()
        #: Segments, ascending; the last one takes the appends.
        self.segments: list[LogSegment] = self._segments.all
        #: The offset that the next committed record gets.
        self.log_end_offset: int = log_end_offset
        #: The offset that the next appended record gets: the log end offset plus what is staged.
        self.next_offset: int = log_end_offset
        #: The log end offset when it was opened.
        self.opened_at: int = log_end_offset
        #: Bytes of the batches that were written since.
        self.appended_bytes: int = 0
        self._durability = Durability(recovery_point, log_end_offset)

    def _take_active(self) -> None:
        self._active = self._segments.active
        self._empty = LogSlice(self._active.log, 0, 0)

    @property
    def directory(self) -> str:
        """Where the files are."""
        return self._directory

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self.segments)

    # Reading

    def _locate(self, offset: int, max_bytes: int, limit: int, *, min_one_batch: bool) -> LogSlice:
        """The bytes from the batch of `offset` on, which lies below the offset `limit`; see `Log.read`."""
        segment = self._active
        position = segment.recent_position(offset)
        first_size = last_offset = 0
        if position is None:
            number = self._segments.number_of(offset)
            segment = self.segments[number]
            found = segment.translate(offset)
            # Compaction may have removed the last batches of a segment: the offset then is in a later one.
            while found is None:
                number += 1
                if number == len(self.segments):
                    return self._empty
                segment = self.segments[number]
                found = segment.translate(offset)
            _, position, first_size, last_offset = found
        size = (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - position
        if size > max_bytes:
            if min_one_batch:
                if not first_size:
                    found = segment.translate(offset)
                    if found is None:
                        return self._empty
                    _, _, first_size, last_offset = found
                size = min(size, max(max_bytes, first_size))
            else:
                size = max_bytes
            if size > first_size:
                # What is cut off here would be sent twice: readers drop a batch that is not whole and ask for it again.
                next_one = segment.offset_index.entry_at_or_below(position + size)
                if next_one.position > position:
                    size = next_one.position - position
                    segment.resume_at(next_one.position, offset + 1, next_one.offset)
            elif size == first_size:
                segment.resume_at(position + size, last_offset + 1, last_offset + 1)
        return LogSlice(segment.log, position, size) if size > 0 else self._empty

    def _size_up_to(self, data: LogSlice, limit: int) -> int | None:
        """Bytes from the start of a slice to the offset `limit`; None where that is in a later segment."""
        segment = self._active
        if data.handle is not segment.log:
            number = self._segments.number_holding(data)
            if number is None or self._segments.bases[number + 1] <= limit:
                return None
            segment = self.segments[number]
        return (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - data.position

    def upper_bound_of(self, data: LogSlice) -> int:
        """An offset behind all records in what `read` gave: the next one that an index knows. `OSError`."""
        offset = self._segments.upper_bound_of(data)
        return self.log_end_offset if offset is None else offset

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions of which a reader may meet records in `fetch_offset`..`upper_offset` - 1.

        See `upper_bound_of` for the second. `OSError`, `CorruptIndexError`.
        """
        return self._segments.aborted_transactions(fetch_offset, upper_offset)

    # Segments

    def _add_segment(self, now_ms: int) -> None:
        """Close the active segment and begin a new one at the log end offset. `LogWriteError`."""
        try:
            # The new files first. If the disk has no room for them, the old segment is untouched and takes appends
            # again.
            segment = LogSegment.create(self._directory, self.log_end_offset, self._config, self._files, now_ms)
            try:
                self._active.become_inactive()
            except OSError:
                segment.delete()
                raise
        except OSError as error:
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error
        self._segments.add(segment)
        # An fsync of a file does not cover its name: the next flush syncs the directory, too.
        self._durability.names_changed = True

    def _remove_segments(self, count: int) -> list[int]:
        """Let go of the `count` oldest segments, never all; returns their base offsets. `OSError`."""
        self._durability.names_changed = True
        return self._segments.remove_oldest(count)

    def _swap_segments(self, base_offset: int, old_base_offsets: Sequence[int]) -> None:
        """See `LogSegments.replace`."""
        if self._closed:
            raise LogClosedError(f"{self._directory}: closed")
        self._segments.replace(base_offset, old_base_offsets, self._config, self._files)
        self._durability.names_changed = True

    def take_deleted_files(self) -> list[str]:
        """The `.deleted` files since the last call, for `layout.unlink_files`; a start removes those that are left."""
        return self._segments.take_deleted_files()

    def _truncate_segments(self, offset: int, now_ms: int) -> None:
        """Drop the batch that holds `offset`, and all behind it. `OSError`."""
        number = self._segments.number_of(offset)
        self._segments.delete_from(number + 1)
        self.segments[number].truncate_to(offset, now_ms)

    def _begin_at(self, offset: int, now_ms: int) -> None:
        """Delete all segments and begin again at `offset`. `OSError`."""
        for segment in self.segments:
            segment.delete()
        self._segments.replace_all(LogSegment.create(self._directory, offset, self._config, self._files, now_ms))

    # On disk

    @property
    def recovery_point(self) -> int:
        """All below this offset is on disk and survives the death of the machine."""
        return self._durability.recovery_point

    @property
    def unflushed_records(self) -> int:
        """Offsets between the recovery point and the log end offset (`flush.messages` counts them)."""
        return self.log_end_offset - self._durability.recovery_point

    def begin_flush(self) -> LogFlush | None:
        """The flush that makes all that is committed durable, None when it is; see `LogFlush`."""
        durability, end = self._durability, self.log_end_offset
        # Names count as well: a roll or a removal without new records must also outlast the machine.
        if durability.recovery_point == end and not durability.names_changed:
            return None
        paths = self._segments.paths_from(durability.recovery_point)
        if durability.names_changed:
            paths.append(f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}")
        return durability.begin(self._directory, paths, end)

    def flush(self) -> None:
        """Make all that is committed durable: the steps of `begin_flush` at once. `OSError`."""
        flush = self.begin_flush()
        if flush is None:
            return
        try:
            flush.run()
        except OSError as error:
            flush.finish(error)
            raise
        flush.finish()

    def _close_segments(self) -> None:
        self._closed = True
        for segment in self.segments:
            segment.close_files()
