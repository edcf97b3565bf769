"""Log compaction on files: reads closed segments and writes `.cleaned` segments (Kafka's `Cleaner`)."""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.cleaner.batch_filter import BatchFilter, CleanedTransactions, keys_of
from minibroker_storage.cleaner.cleaned_segment import CleanedSegment, read_entries
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import (
    NS_PER_MS,
    CleanedGroup,
    CleanerStats,
    CleaningAbortedError,
    CleaningPlan,
    CleaningResult,
    SegmentToClean,
    remove_cleaned_files,
)
from minibroker_storage.layout import TXN_INDEX_SUFFIX, file_name
from minibroker_storage.portability import os
from minibroker_storage.transaction_index import ENTRY, AbortedTxn, decode_all

_SHORTEST_SLEEP: Final = 0.05


def clean(plan: CleaningPlan, *, check_done: Callable[[], None] = lambda: None) -> CleaningResult:
    """Write complete `.cleaned` files for every segment group that loses records (Kafka's `Cleaner.doClean`).

    No other file is modified, so this function can run in any process. It reads every segment of the plan, and
    needs memory for the offset map and one entry. All `.cleaned` files in the directory, including leftovers of an
    earlier cleaning, are removed at the start and after an error.

    Args:
        plan: the plan made by `plan_cleaning`.
        check_done: called about once per megabyte; stops the cleaning by raising an exception.

    Raises:
        CleaningAbortedError: the log's files changed after the plan was made.
        DecodeError: a segment contains bytes that are not a log, so this log cannot be cleaned.
        OSError: a file cannot be read or written.
    """
    try:
        directory_fd = os.open(plan.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CleaningAbortedError(f"{plan.directory}: gone since the cleaning was planned") from None
    try:
        remove_cleaned_files(directory_fd)
        try:
            return _Cleaner(plan, directory_fd, check_done).run()
        except BaseException:
            remove_cleaned_files(directory_fd)
            raise
    finally:
        os.close(directory_fd)


class _Cleaner:
    """The state of one clean() call."""

    def __init__(self, plan: CleaningPlan, directory_fd: int, check_done: Callable[[], None]) -> None:
        self._plan = plan
        self._check_done = check_done
        self._directory_fd = directory_fd
        self._map = OffsetMap(min(plan.max_map_entries, plan.first_uncleanable_offset - plan.first_dirty_offset))
        self._started = time.monotonic()
        self._io_bytes = 0
        self._map_bytes_read = self._map_messages_read = self._bytes_read = self._bytes_written = 0

    def run(self) -> CleaningResult:
        """Build the offset map, then clean each group."""
        plan = self._plan
        self._build_offset_map()
        next_dirty_offset = self._map.latest_offset + 1
        segments = [segment for segment in plan.segments if segment.base_offset < next_dirty_offset]
        transactions = CleanedTransactions(self._find_aborted_transactions(segments[0].base_offset if segments else 0))
        batch_filter = BatchFilter(
            self._map, transactions, plan.producers, now_ms=plan.now_ms, delete_retention_ms=plan.delete_retention_ms
        )
        cleaned = [
            group
            for sources in group_segments(segments, plan)
            if (group := self._clean_group(sources, batch_filter, transactions)) is not None
        ]
        stats = CleanerStats(
            map_bytes_read=self._map_bytes_read,
            map_messages_read=self._map_messages_read,
            map_entries=self._map.entries,
            max_map_entries=plan.max_map_entries,
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
            messages_read=batch_filter.messages_read,
            messages_written=batch_filter.messages_written,
            invalid_messages_read=batch_filter.invalid_messages_read,
            seconds=time.monotonic() - self._started,
        )
        return CleaningResult(plan.directory, plan.first_dirty_offset, next_dirty_offset, tuple(cleaned), stats)

    def _build_offset_map(self) -> None:
        """Add the keys of all dirty segments until the map is full."""
        plan = self._plan
        transactions = CleanedTransactions(self._find_aborted_transactions(plan.first_dirty_offset))
        ends = [segment.base_offset for segment in plan.segments[1:]] + [plan.first_uncleanable_offset]
        for segment, end in zip(plan.segments, ends, strict=True):
            if end <= plan.first_dirty_offset:
                continue
            if not self._add_segment_keys(segment, transactions):
                return
            # Include any gap in offsets after the segment's last record.
            self._map.latest_offset = end - 1

    def _add_segment_keys(self, segment: SegmentToClean, transactions: CleanedTransactions) -> bool:
        """Add the keys of a segment, and return False if the map became full."""
        start, offset_map = self._plan.first_dirty_offset, self._map
        for entry, header in read_entries(self._directory_fd, segment, self._on_progress):
            last_offset = header.last_offset
            self._map_bytes_read += len(entry)
            if header.magic == MAGIC_V2 and header.attributes & CONTROL_FLAG:
                transactions.on_control_batch(header, entry)
                self._map_messages_read += header.record_count
            elif transactions.on_batch(header):
                self._map_messages_read += header.record_count
            elif last_offset >= start:
                keys = keys_of(entry, header)
                self._map_messages_read += len(keys.keys)
                if not offset_map.put_all(keys.keys, keys.offsets, start):
                    return False
            if last_offset >= start:
                offset_map.latest_offset = last_offset
        return True

    def _find_aborted_transactions(self, first_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions needed to clean from the segment that contains `first_offset` on.

        These transactions end in that segment or a later one, and begin in a segment that is cleaned. The segment is
        read from its start, so transactions that end in it before `first_offset` are included (Kafka's
        `collectAbortedTransactions`).
        """
        plan = self._plan
        bases = [*(segment.base_offset for segment in plan.segments), *plan.later_segments]
        return [
            transaction
            for base_offset in bases[max(bisect_right(bases, first_offset) - 1, 0) :]
            for transaction in read_transaction_index(self._directory_fd, base_offset)
            if transaction.first_offset < plan.first_uncleanable_offset
        ]

    def _clean_group(
        self, sources: Sequence[SegmentToClean], batch_filter: BatchFilter, transactions: CleanedTransactions
    ) -> CleanedGroup | None:
        """Clean the segments of a group into one segment.

        If a group of one segment loses no records, return None and leave no files.
        """
        plan = self._plan
        cleaned = CleanedSegment(self._directory_fd, sources[0].base_offset, plan, self._on_progress)
        changed = len(sources) > 1
        try:
            for source in sources:
                batch_filter.retain_legacy_deletes = source.modified_ns // NS_PER_MS > plan.legacy_delete_horizon_ms
                for entry, header in read_entries(self._directory_fd, source, self._on_progress):
                    self._bytes_read += len(entry)
                    retained = batch_filter.filter(entry, header)
                    if retained is None:
                        changed = True
                        continue
                    changed |= retained.data is not entry
                    cleaned.append(retained)
            self._bytes_written += cleaned.end
            aborted = transactions.take_retained()
            if not changed:
                return None
            cleaned.finish(aborted, sources[-1].modified_ns)
            return CleanedGroup(cleaned.base_offset, cleaned.end, tuple(sources))
        finally:
            cleaned.close()

    def _on_progress(self, size: int) -> None:
        """Check whether to stop, and sleep if I/O is too fast (Kafka's `Throttler`). Called about once per megabyte."""
        self._check_done()
        self._io_bytes += size
        if self._plan.io_bytes_per_second is not None:
            ahead = self._io_bytes / self._plan.io_bytes_per_second - (time.monotonic() - self._started)
            if ahead > _SHORTEST_SLEEP:
                time.sleep(ahead)


def group_segments(segments: Sequence[SegmentToClean], plan: CleaningPlan) -> list[list[SegmentToClean]]:
    """Group adjacent segments that fit into one segment (Kafka's `groupSegmentsBySize`).

    The log file, both indexes and the offset range of the combined segment must stay within their limits.
    """
    groups: list[list[SegmentToClean]] = []
    size = offset_index_size = time_index_size = 0
    for index, segment in enumerate(segments):
        size += segment.size
        offset_index_size += segment.offset_index_size
        time_index_size += segment.time_index_size
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else plan.first_uncleanable_offset
        if (
            groups
            and size <= plan.segment_bytes
            and offset_index_size <= plan.segment_index_bytes
            and time_index_size <= plan.segment_index_bytes
            and (not segment.size or next_base - 1 - groups[-1][0].base_offset <= INT32_MAX)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offset_index_size, time_index_size = segment.size, segment.offset_index_size, segment.time_index_size
    return groups


def read_transaction_index(directory_fd: int, base_offset: int) -> list[AbortedTxn]:
    """Return the aborted transactions in a segment's transaction index, or an empty list if it has none.

    The index of the active segment can grow during the read, so a partial entry at the end is ignored.

    Raises:
        CorruptIndexError: the index contains an invalid entry.
        OSError: the index cannot be read.
    """
    try:
        fd = os.open(file_name(base_offset, TXN_INDEX_SUFFIX), os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
    except FileNotFoundError:
        return []
    with open(fd, "rb", buffering=0) as file:
        data = file.read()
    return decode_all(data[: len(data) - len(data) % ENTRY.size])
