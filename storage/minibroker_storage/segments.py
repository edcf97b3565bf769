"""The list of a log's segments, and its changes."""

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
    """The segments of one log in ascending order. There is always at least one (Kafka's `LogSegments`).

    Removed segments leave `.deleted` files behind, because renaming is quick for files of any size and unlinking is
    not. The oldest segments are removed first, so a crash leaves no gap. `replacement` explains why a swap is
    crash-safe.
    """

    __slots__ = ("_deleted_files", "_directory", "active", "all", "bases")

    def __init__(self, directory: str, segments: list[LogSegment]) -> None:
        self._directory = directory
        self._deleted_files: list[str] = []
        #: All segments, ascending. This list object is kept for the lifetime of the log.
        self.all = segments
        self._update()

    def _update(self) -> None:
        #: The base offsets of the segments in `all`, in the same order.
        self.bases = [segment.base_offset for segment in self.all]
        #: The last segment, which accepts appends.
        self.active = self.all[-1]

    def number_of(self, offset: int) -> int:
        """Return the number of the segment that contains `offset`, or 0 if `offset` is below all segments."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def add(self, segment: LogSegment) -> None:
        """Add a new active segment."""
        self.all.append(segment)
        self._update()

    def replace_all(self, segment: LogSegment) -> None:
        """Replace all segments with a new one. The files of the old segments must already be gone."""
        self.all[:] = [segment]
        self._update()

    def set_index_interval(self, size: int) -> None:
        """Apply a changed `index.interval.bytes`."""
        for segment in self.all:
            segment.index_interval_bytes = size

    def delete_from(self, number: int) -> None:
        """Delete the segments from the one with this number on, including their files, but never the first segment.

        Raises:
            OSError: a file cannot be removed.
        """
        removed = self.all[number:]
        del self.all[number:]
        self._update()
        for segment in removed:
            segment.delete()

    def remove_oldest(self, count: int) -> list[int]:
        """Remove the `count` oldest segments, but never all of them, and return their base offsets.

        Raises:
            OSError: a file cannot be renamed. The segments before that one have been removed.
        """
        removed = self.all[:count]
        count_removed = 0
        try:
            for segment in removed:
                # Count the segments one by one, so that after an error the later ones are kept and the log has no hole.
                self._deleted_files += segment.set_aside()
                count_removed += 1
        finally:
            del self.all[:count_removed]
            self._update()
        return [segment.base_offset for segment in removed]

    def replace(self, base_offset: int, old_base_offsets: Sequence[int], config: LogConfig, files: FilePool) -> None:
        """Replace closed segments with the cleaned segment `base_offset`. See `replacement` for the order of steps.

        The `.cleaned` files of that segment must be complete and on disk, and no `.cleaned` file with a smaller offset
        may exist. Pinned files stay readable.

        Raises:
            StorageError: one of the old segments no longer exists, or the cleaned segment cannot be loaded; the cleaned
                files are removed.
            OSError: a file cannot be read or renamed. The cleaned files are removed or, if all of them have been
                renamed already, the next start completes the replacement.
        """
        number = self.number_of(base_offset)
        end = number + len(old_base_offsets)
        # Retention or DeleteRecords may have removed a source segment while the cleaner ran in its own process.
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
            # Only the paths must be updated: the descriptors stay valid, since a rename does not change the inode.
            handle.path = handle.path.removesuffix(CLEANED_SUFFIX)
        self.all[number:end] = [cleaned]
        self._update()

    def _load_cleaned(self, old: LogSegment, next_base: int, config: LogConfig, files: FilePool) -> LogSegment:
        """Load the cleaned segment under its temporary names.

        This comes first because nothing may fail once the old segments are gone.

        Raises:
            OSError, StorageError: the segment cannot be loaded; the cleaned files are removed.
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
        """Return the `.deleted` files created since the last call. The caller must remove them."""
        deleted, self._deleted_files = self._deleted_files, []
        return deleted

    def paths_from(self, offset: int) -> list[str]:
        """Return the paths of the files of one segment and of all later segments.

        The first of these segments ends at `offset` or, if none does, contains it.
        """
        number = max(bisect_left(self.bases, offset) - 1, 0)
        return [handle.path for segment in self.all[number:] for handle in segment.handles]

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records in `fetch_offset`..`upper_offset` - 1.

        The transaction indexes are searched as in Kafka's `collectAbortedTransactions`.

        Raises:
            OSError: an index cannot be read.
            CorruptIndexError: an index is invalid.
        """
        transactions: list[AbortedTxn] = []
        for segment in self.all[self.number_of(fetch_offset) :]:
            for transaction in segment.transaction_index.since(fetch_offset):
                if transaction.first_offset < upper_offset:
                    transactions.append(transaction)
                # Transactions that were still open at this marker begin at or above its last stable offset, so all
                # later entries are out of range.
                if transaction.last_stable_offset >= upper_offset:
                    return transactions
        return transactions

    def upper_bound_of(self, data: LogSlice) -> int | None:
        """Return an offset above all records of a slice, or None if the slice is at the log's end or was removed.

        The offset is the next one in an index, or the base offset of the next segment.
        """
        number = self.number_of_slice(data)
        if number is None:
            return None
        segment = self.all[number]
        offset = segment.offset_index.offset_at_or_above(data.position + data.size)
        if offset is None and segment is not self.active:
            offset = self.bases[number + 1]
        return offset

    def number_of_slice(self, data: LogSlice) -> int | None:
        """Return the number of the segment that contains a slice, or None if it was removed."""
        return next((number for number, segment in enumerate(self.all) if segment.log is data.handle), None)
