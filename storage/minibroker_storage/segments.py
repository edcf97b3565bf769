"""The segments of a log, and how they come and go."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from minibroker_storage.config import LogConfig
from minibroker_storage.errors import StorageError
from minibroker_storage.files import FilePool, LogSlice
from minibroker_storage.layout import CLEANED_SUFFIX
from minibroker_storage.recovery import load_segment
from minibroker_storage.replacement import remove_cleaned, swap_in
from minibroker_storage.segment import LogSegment
from minibroker_storage.transaction_index import AbortedTxn


class LogSegments:
    """The segments of one log in the order of their offsets, at least one (Kafka's `LogSegments`).

    Those that go leave files named `.deleted` behind: renaming is quick whatever the size, unlinking is not. Crash
    rule: see `replacement`; the oldest go first, so that what is left has no hole.
    """

    __slots__ = ("_deleted_files", "_directory", "active", "all", "bases")

    def __init__(self, directory: str, segments: list[LogSegment]) -> None:
        self._directory = directory
        self._deleted_files: list[str] = []
        #: Ascending; the same list for as long as the log lives.
        self.all = segments
        self._changed()

    def _changed(self) -> None:
        #: Base offsets of `all`.
        self.bases = [segment.base_offset for segment in self.all]
        #: The last one, which takes the appends.
        self.active = self.all[-1]

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds `offset`; 0 for one before them all."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def add(self, segment: LogSegment) -> None:
        """Take a new active segment."""
        self.all.append(segment)
        self._changed()

    def replace_all(self, segment: LogSegment) -> None:
        """Forget all segments, whose files are gone, for a new one."""
        self.all[:] = [segment]
        self._changed()

    def set_index_interval(self, size: int) -> None:
        """Take over a changed `index.interval.bytes`."""
        for segment in self.all:
            segment.index_interval_bytes = size

    def delete_from(self, number: int) -> None:
        """Delete the newest segments, all from this number on but never the first, at once. `OSError`."""
        removed = self.all[number:]
        del self.all[number:]
        self._changed()
        for segment in removed:
            segment.delete()

    def remove_oldest(self, count: int) -> list[int]:
        """Let go of the `count` oldest, never all; returns their base offsets. `OSError`: of some, perhaps."""
        removed = self.all[:count]
        done = 0
        try:
            for segment in removed:
                # Counted one by one: an error in the middle leaves the later ones in the log, and no hole.
                self._deleted_files += segment.set_aside()
                done += 1
        finally:
            del self.all[:done]
            self._changed()
        return [segment.base_offset for segment in removed]

    def replace(self, base_offset: int, old_base_offsets: Sequence[int], config: LogConfig, files: FilePool) -> None:
        """Put the cleaned segment `base_offset` in the place of closed ones; see `replacement` for the order.

        Its `.cleaned` files are complete and on disk; there is no `.cleaned` file of a smaller offset. Pinned files
        stay readable. `StorageError` when one of the old segments is not there any more, and `OSError` when a file
        cannot be renamed: the cleaned files are removed.
        """
        number = self.number_of(base_offset)
        end = number + len(old_base_offsets)
        # Retention or DeleteRecords may have removed a source while the cleaner ran in its own process.
        if end >= len(self.all) or not old_base_offsets or self.bases[number:end] != list(old_base_offsets):
            remove_cleaned(self._directory, base_offset)
            raise StorageError(f"{self._directory}: no closed segments {list(old_base_offsets)} to replace")
        old = self.all[number:end]
        cleaned = self._load_cleaned(old[0], self.bases[end], config, files)
        try:
            self._deleted_files += swap_in(self._directory, base_offset, old)
        except OSError:
            cleaned.close_files()
            raise
        for handle in cleaned.handles:
            # The descriptors stay open: a rename changes the name, not the inode.
            handle.path = handle.path.removesuffix(CLEANED_SUFFIX)
        self.all[number:end] = [cleaned]
        self._changed()

    def _load_cleaned(self, old: LogSegment, next_base: int, config: LogConfig, files: FilePool) -> LogSegment:
        """The cleaned segment, under its passing names: once the old ones have gone nothing may fail any more.

        `OSError`, `StorageError`: the cleaned files are removed.
        """
        base_offset = old.base_offset
        try:
            cleaned = LogSegment.load(self._directory, base_offset, config, files, old.created_ms, CLEANED_SUFFIX)
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
        """The `.deleted` files since the last call, which the caller removes."""
        deleted, self._deleted_files = self._deleted_files, []
        return deleted

    def paths_from(self, offset: int) -> list[str]:
        """The files of all segments from the one on that ends at `offset`, or else holds it."""
        number = max(bisect_left(self.bases, offset) - 1, 0)
        return [handle.path for segment in self.all[number:] for handle in segment.handles]

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in `fetch_offset`..`upper_offset` - 1, by the transaction indexes.

        Kafka's `collectAbortedTransactions`. `OSError`, `CorruptIndexError`.
        """
        found: list[AbortedTxn] = []
        for segment in self.all[self.number_of(fetch_offset) :]:
            for transaction in segment.transaction_index.since(fetch_offset):
                if transaction.first_offset < upper_offset:
                    found.append(transaction)
                # Whatever was open then begins at or above this offset: later entries are of transactions behind the
                # range.
                if transaction.last_stable_offset >= upper_offset:
                    return found
        return found

    def upper_bound_of(self, data: LogSlice) -> int | None:
        """An offset behind all records of a slice: the next one that an index knows, None at the log's end."""
        number = self.number_holding(data)
        if number is None:
            return None
        segment = self.all[number]
        offset = segment.offset_index.offset_at_or_above(data.position + data.size)
        if offset is None and segment is not self.active:
            offset = self.bases[number + 1]
        return offset

    def number_holding(self, data: LogSlice) -> int | None:
        """Which of the segments what `read` gave is a part of; None if there is none any more."""
        return next((number for number, segment in enumerate(self.all) if segment.log is data.handle), None)
