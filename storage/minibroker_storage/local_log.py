"""The segments of one partition's log and the bytes in them (Kafka's `LocalLog` and `LogSegments`)."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from minibroker_storage.config import LogConfig
from minibroker_storage.errors import LogClosedError, LogWriteError, StorageError
from minibroker_storage.files import FilePool, LogSlice
from minibroker_storage.flush import Durability, LogFlush
from minibroker_storage.layout import CLEANED_SUFFIX, LEADER_EPOCH_CHECKPOINT
from minibroker_storage.recovery import LoadedLog, load_segment
from minibroker_storage.replacement import remove_cleaned, swap_in
from minibroker_storage.segment import LogSegment
from minibroker_storage.transaction_index import AbortedTxn


class LocalLog:
    """The segments of a log in its directory: finding offsets, adding and removing segments, and fsync.

    `Log` adds the offsets visible to clients, the producers and the leader epochs. Staged batches are in the active
    segment, between `log_end_offset` and `next_offset`. See `LogSegment` for crash safety.

    Removed segments leave `.deleted` files behind, because renaming is quick for files of any size and unlinking is
    not. The oldest segments are removed first, so a crash leaves no gap. `replacement` explains why a swap is
    crash-safe.
    """

    __slots__ = (
        "_active",
        "_base_offsets",
        "_closed",
        "_config",
        "_deleted_files",
        "_directory",
        "_durability",
        "_empty",
        "_files",
        "appended_bytes",
        "end_offset_at_open",
        "log_end_offset",
        "next_offset",
        "segments",
    )

    def __init__(
        self, directory: str, config: LogConfig, files: FilePool, loaded: LoadedLog, recovery_point: int
    ) -> None:
        self._directory = directory
        self._config = config
        self._files = files
        self._closed = False
        self._deleted_files: list[str] = []
        #: The segments in ascending order, at least one. The last one is active. The list object never changes.
        self.segments: list[LogSegment] = loaded.segments
        self._update_segments()
        #: The offset after the last committed record.
        self.log_end_offset: int = loaded.log_end_offset
        #: The offset of the next appended record, which follows the staged records.
        self.next_offset: int = loaded.log_end_offset
        #: The log end offset when the log was opened.
        self.end_offset_at_open: int = loaded.log_end_offset
        #: The number of bytes written since the log was opened.
        self.appended_bytes: int = 0
        self._durability = Durability(max(recovery_point, loaded.log_start_offset), loaded.log_end_offset)

    def _update_segments(self) -> None:
        """Update the fields that depend on the list of segments."""
        self._base_offsets = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]
        self._empty = LogSlice(self._active.log, 0, 0)

    @property
    def directory(self) -> str:
        """Path of the log's directory."""
        return self._directory

    @property
    def size(self) -> int:
        """Total size of the log files in bytes."""
        return sum(segment.size for segment in self.segments)

    def segment_index(self, offset: int) -> int:
        """Return the index of the segment that contains `offset`, or 0 if `offset` is below all segments."""
        return max(bisect_right(self._base_offsets, offset) - 1, 0)

    def _locate(self, offset: int, max_bytes: int, limit: int, *, min_one_batch: bool) -> LogSlice:
        """Return the slice from the batch that contains `offset` up to the offset `limit`, for `Log.read`.

        `offset` must be below `limit`.
        """
        segment = self._active
        position = segment.recent_position(offset)
        first_size = last_offset = 0
        if position is None:
            # Compaction may have removed the last batches of a segment, so continue with the later segments.
            for segment in self.segments[self.segment_index(offset) :]:
                if (entry := segment.translate(offset)) is not None:
                    break
            else:
                return self._empty
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

    def upper_bound_of(self, data: LogSlice) -> int:
        """Return an offset above all records of a slice: the next offset in an index, or the log end offset.

        Raises:
            OSError: the index cannot be read.
        """
        index = self._find_segment_index(data)
        if index is None:
            return self.log_end_offset
        offset = self.segments[index].offset_index.offset_at_or_above(data.position + data.size)
        if offset is not None:
            return offset
        return self.log_end_offset if index + 1 == len(self.segments) else self._base_offsets[index + 1]

    def _find_segment_index(self, data: LogSlice) -> int | None:
        """Return the index of the segment that contains a slice, or None if it was removed."""
        return next((index for index, segment in enumerate(self.segments) if segment.log is data.handle), None)

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that can have records in `fetch_offset`..`upper_offset` - 1.

        `upper_bound_of` returns a suitable `upper_offset`. The transaction indexes are searched as in Kafka's
        `collectAbortedTransactions`.

        Raises:
            OSError: an index cannot be read.
            CorruptIndexError: an index is invalid.
        """
        transactions: list[AbortedTxn] = []
        for segment in self.segments[self.segment_index(fetch_offset) :]:
            for transaction in segment.transaction_index.since(fetch_offset):
                if transaction.first_offset < upper_offset:
                    transactions.append(transaction)
                # Transactions that were still open at this marker begin at or above its last stable offset, so all
                # later entries are out of range.
                if transaction.last_stable_offset >= upper_offset:
                    return transactions
        return transactions

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
        self.segments.append(segment)
        self._update_segments()
        # Syncing a file does not sync its name, so the next flush must sync the directory.
        self._durability.names_changed = True

    def _remove_segments(self, count: int) -> list[int]:
        """Remove the `count` oldest segments, but never all of them, and return their base offsets.

        Raises:
            OSError: a file cannot be renamed. The segments before that one have been removed.
        """
        self._durability.names_changed = True
        removed = self.segments[:count]
        try:
            for segment in removed:
                self._deleted_files += segment.set_aside()
                # Remove the segments one by one, so that an error leaves the later ones in place and the log has no
                # hole.
                del self.segments[0]
        finally:
            self._update_segments()
        return [segment.base_offset for segment in removed]

    def replace_segments(self, base_offset: int, old_base_offsets: Sequence[int]) -> None:
        """Replace closed segments with the cleaned segment `base_offset`. See `replacement` for the order of steps.

        The `.cleaned` files of that segment must be complete and on disk, and no `.cleaned` file with a smaller offset
        may exist. Pinned files stay readable.

        Raises:
            StorageError: one of the old segments no longer exists, or the cleaned segment cannot be loaded; the cleaned
                files are removed.
            OSError: a file cannot be read or renamed. The cleaned files are removed or, if all of them have been
                renamed already, the next start completes the replacement.
        """
        if self._closed:
            raise LogClosedError(f"{self._directory}: closed")
        begin = self.segment_index(base_offset)
        end = begin + len(old_base_offsets)
        # Retention or DeleteRecords may have removed a source segment while the cleaner ran in its own process.
        if end >= len(self.segments) or not old_base_offsets or self._base_offsets[begin:end] != list(old_base_offsets):
            remove_cleaned(self._directory, base_offset)
            raise StorageError(f"{self._directory}: no closed segments {list(old_base_offsets)} to replace")
        old = self.segments[begin:end]
        cleaned = self._load_cleaned(old[0], self._base_offsets[end])
        try:
            self._deleted_files += swap_in(self._directory, base_offset, old)
        except OSError:
            cleaned.close_files()
            raise
        for handle in cleaned.handles:
            # Only the paths must be updated: the descriptors stay valid, since a rename does not change the inode.
            handle.path = handle.path.removesuffix(CLEANED_SUFFIX)
        self.segments[begin:end] = [cleaned]
        self._update_segments()
        self._durability.names_changed = True

    def _load_cleaned(self, old: LogSegment, next_base: int) -> LogSegment:
        """Load the cleaned segment under its temporary names.

        This comes first because nothing may fail once the old segments are gone.

        Raises:
            OSError, StorageError: the segment cannot be loaded; the cleaned files are removed.
        """
        base_offset = old.base_offset
        try:
            cleaned = LogSegment.load(
                self._directory, base_offset, self._config, self._files, old.created_ms, CLEANED_SUFFIX
            )
            try:
                load_segment(cleaned, next_base)
            except BaseException:
                cleaned.close_files()
                raise
        except (OSError, StorageError):
            remove_cleaned(self._directory, base_offset)
            raise
        return cleaned

    def take_deleted_files(self) -> list[str]:
        """Return the `.deleted` files created since the last call, for `layout.unlink_files`.

        Files that are not unlinked are removed at the next start.
        """
        deleted, self._deleted_files = self._deleted_files, []
        return deleted

    def _truncate_segments(self, offset: int, now_ms: int) -> None:
        """Remove the batch that contains `offset` and all later ones.

        Raises:
            OSError: a file cannot be truncated or removed.
        """
        end = self.segment_index(offset) + 1
        removed = self.segments[end:]
        del self.segments[end:]
        self._update_segments()
        for segment in removed:
            segment.delete()
        self._active.truncate_to(offset, now_ms)

    def _restart_at(self, offset: int, now_ms: int) -> None:
        """Delete all segments and create an empty one at `offset`.

        Raises:
            OSError: a file cannot be removed or created.
        """
        for segment in self.segments:
            segment.delete()
        self.segments[:] = [LogSegment.create(self._directory, offset, self._config, self._files, now_ms)]
        self._update_segments()

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
        # Include the segment that ends at the recovery point or, if none does, the one that contains it.
        begin = max(bisect_left(self._base_offsets, durability.recovery_point) - 1, 0)
        paths = [handle.path for segment in self.segments[begin:] for handle in segment.handles]
        if durability.names_changed:
            paths += (f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}", self._directory)
            if durability.is_new:
                paths.append(os.path.dirname(self._directory))
            durability.names_changed = False
        return LogFlush(durability, self._directory, paths, end)

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
