"""The segments of one partition's log and the bytes in them (Kafka's `LocalLog`)."""

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
    """The segments of a log in its directory: finding offsets, adding and removing segments, and fsync.

    `Log` adds the offsets visible to clients, the producers and the leader epochs. Staged batches are in the active
    segment, between `log_end_offset` and `next_offset`. See `LogSegment` and `LogSegments` for crash safety.
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
        "end_offset_at_open",
        "log_end_offset",
        "next_offset",
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
        self._set_active()
        #: The segments in ascending order; the last one is active.
        self.segments: list[LogSegment] = self._segments.all
        #: The offset after the last committed record.
        self.log_end_offset: int = log_end_offset
        #: The offset of the next appended record, which follows the staged records.
        self.next_offset: int = log_end_offset
        #: The log end offset when the log was opened.
        self.end_offset_at_open: int = log_end_offset
        #: The number of bytes written since the log was opened.
        self.appended_bytes: int = 0
        self._durability = Durability(recovery_point, log_end_offset)

    def _set_active(self) -> None:
        self._active = self._segments.active
        self._empty = LogSlice(self._active.log, 0, 0)

    @property
    def directory(self) -> str:
        """Path of the log's directory."""
        return self._directory

    @property
    def size(self) -> int:
        """Total size of the log files in bytes."""
        return sum(segment.size for segment in self.segments)

    def _locate(self, offset: int, max_bytes: int, limit: int, *, min_one_batch: bool) -> LogSlice:
        """Return the slice from the batch that contains `offset` up to the offset `limit`, for `Log.read`.

        `offset` must be below `limit`.
        """
        segment = self._active
        position = segment.recent_position(offset)
        first_size = last_offset = 0
        if position is None:
            number = self._segments.number_of(offset)
            segment = self.segments[number]
            entry = segment.translate(offset)
            # Compaction may have removed the last batches of this segment, so continue with the later segments.
            while entry is None:
                number += 1
                if number == len(self.segments):
                    return self._empty
                segment = self.segments[number]
                entry = segment.translate(offset)
            _, position, first_size, last_offset = entry
        size = (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - position
        if size > max_bytes:
            if min_one_batch:
                if not first_size:
                    entry = segment.translate(offset)
                    if entry is None:
                        return self._empty
                    _, _, first_size, last_offset = entry
                size = min(size, max(max_bytes, first_size))
            else:
                size = max_bytes
            if size > first_size:
                # End the data at the start of a batch. Readers drop an incomplete batch and request it again, so it
                # would be sent twice.
                next_entry = segment.offset_index.entry_at_or_below(position + size)
                if next_entry.position > position:
                    size = next_entry.position - position
                    segment.resume_at(next_entry.position, offset + 1, next_entry.offset)
            elif size == first_size:
                segment.resume_at(position + size, last_offset + 1, last_offset + 1)
        return LogSlice(segment.log, position, size) if size > 0 else self._empty

    def _size_up_to(self, data: LogSlice, limit: int) -> int | None:
        """Return the number of bytes from the start of a slice to the offset `limit`.

        The result is None if `limit` is in a later segment than the slice.
        """
        segment = self._active
        if data.handle is not segment.log:
            number = self._segments.number_of_slice(data)
            if number is None or self._segments.bases[number + 1] <= limit:
                return None
            segment = self.segments[number]
        return (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - data.position

    def upper_bound_of(self, data: LogSlice) -> int:
        """Return an offset above all records of a slice: the next offset in an index, or the log end offset.

        Raises:
            OSError: the index cannot be read.
        """
        offset = self._segments.upper_bound_of(data)
        return self.log_end_offset if offset is None else offset

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that can have records in `fetch_offset`..`upper_offset` - 1.

        `upper_bound_of` returns a suitable `upper_offset`.

        Raises:
            OSError: an index cannot be read.
            CorruptIndexError: an index is invalid.
        """
        return self._segments.aborted_transactions(fetch_offset, upper_offset)

    def _add_segment(self, now_ms: int) -> None:
        """Close the active segment and create a new one at the log end offset.

        Raises:
            LogWriteError: a file cannot be created or written.
        """
        try:
            # The new files are created first. If the disk has no room for them, the old segment is unchanged and still
            # accepts appends.
            segment = LogSegment.create(self._directory, self.log_end_offset, self._config, self._files, now_ms)
            try:
                self._active.become_inactive()
            except OSError:
                segment.delete()
                raise
        except OSError as error:
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error
        self._segments.add(segment)
        # Syncing a file does not sync its name, so the next flush must sync the directory.
        self._durability.names_changed = True

    def _remove_segments(self, count: int) -> list[int]:
        """Remove the `count` oldest segments, but never all of them, and return their base offsets.

        Raises:
            OSError: a file cannot be renamed.
        """
        self._durability.names_changed = True
        return self._segments.remove_oldest(count)

    def _swap_segments(self, base_offset: int, old_base_offsets: Sequence[int]) -> None:
        """Replace closed segments with a cleaned one (see `LogSegments.replace`)."""
        if self._closed:
            raise LogClosedError(f"{self._directory}: closed")
        self._segments.replace(base_offset, old_base_offsets, self._config, self._files)
        self._durability.names_changed = True

    def take_deleted_files(self) -> list[str]:
        """Return the `.deleted` files created since the last call, for `layout.unlink_files`.

        Any that are not unlinked are removed at the next start.
        """
        return self._segments.take_deleted_files()

    def _truncate_segments(self, offset: int, now_ms: int) -> None:
        """Remove the batch that contains `offset` and all later ones.

        Raises:
            OSError: a file cannot be truncated or removed.
        """
        number = self._segments.number_of(offset)
        self._segments.delete_from(number + 1)
        self.segments[number].truncate_to(offset, now_ms)

    def _begin_at(self, offset: int, now_ms: int) -> None:
        """Delete all segments and create an empty one at `offset`.

        Raises:
            OSError: a file cannot be removed or created.
        """
        for segment in self.segments:
            segment.delete()
        self._segments.replace_all(LogSegment.create(self._directory, offset, self._config, self._files, now_ms))

    @property
    def recovery_point(self) -> int:
        """The offset below which all records are on disk and survive a machine crash."""
        return self._durability.recovery_point

    @property
    def unflushed_records(self) -> int:
        """The number of offsets from the recovery point to the log end offset, for comparison with `flush.messages`."""
        return self.log_end_offset - self._durability.recovery_point

    def begin_flush(self) -> LogFlush | None:
        """Return a flush that makes all committed records durable, or None if all of them are already durable."""
        durability, end = self._durability, self.log_end_offset
        # Changed names also need a flush: a roll or removal without new records must survive a machine crash.
        if durability.recovery_point == end and not durability.names_changed:
            return None
        paths = self._segments.paths_from(durability.recovery_point)
        if durability.names_changed:
            paths.append(f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}")
        return durability.begin(self._directory, paths, end)

    def flush(self) -> None:
        """Make all committed records durable by running every step of `begin_flush`.

        Raises:
            OSError: an fsync failed.
        """
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
