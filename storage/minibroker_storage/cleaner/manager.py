"""The parts of log cleaning that touch the log: choosing the segments, and swapping in the cleaned ones.

`minibroker.cluster.logs.log_cleaner` chooses which log to clean (Kafka's `LogCleanerManager`).
"""

import contextlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.cleaner.offset_map import max_entries
from minibroker_storage.cleaner.plan import (
    DEFAULT_DEDUPE_BUFFER_BYTES,
    DEFAULT_LOAD_FACTOR,
    NS_PER_MS,
    ActiveProducer,
    CleanedGroup,
    CleaningAbortedError,
    CleaningPlan,
    CleaningResult,
    SegmentToClean,
    remove_cleaned_files,
)
from minibroker_storage.errors import StorageError
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex

if TYPE_CHECKING:
    from minibroker_storage.log import Log
    from minibroker_storage.segment import LogSegment

_NO_DATA_OFFSET: Final = -1


class Cleanable(NamedTuple):
    """The dirtiness of a log, used to choose which log to clean next (Kafka's `LogToClean`).

    Attributes:
        first_dirty_offset: the first offset that has never been cleaned.
        first_uncleanable_offset: segments from this offset on cannot be cleaned yet.
        clean_bytes: the size of the segments that begin before `first_dirty_offset`.
        cleanable_bytes: the size of the segments from the one that contains `first_dirty_offset` up to
            `first_uncleanable_offset`.
        must_clean: whether the oldest dirty record has waited longer than `max.compaction.lag.ms`.
        checkpoint_is_wrong: whether the checkpointed offset was outside the log, so that cleaning starts over.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_clean: bool
    checkpoint_is_wrong: bool

    @property
    def dirty_ratio(self) -> float:
        """`cleanable_bytes` divided by the sum of `clean_bytes` and `cleanable_bytes`, from 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Return whether the log should be cleaned now (Kafka's `grabFilthiestCompactedLog`)."""
        return self.dirty_ratio > min_cleanable_dirty_ratio or (self.must_clean and self.cleanable_bytes > 0)


def find_cleanable(log: "Log", first_dirty_offset: int | None, now_ms: int) -> Cleanable:
    """Compute the dirtiness of a log.

    The active segment, records above the last stable offset, and segments with a record younger than
    `min.compaction.lag.ms` cannot be cleaned. If `max.compaction.lag.ms` is set, the function reads one header per
    dirty segment; otherwise it does not read the log. For a segment without timestamps, its modification time is used
    instead.

    Args:
        log: the log to examine.
        first_dirty_offset: the log's entry in `cleaner-offset-checkpoint`, or None.
        now_ms: the current time.

    Raises:
        OSError: a file cannot be read.
    """
    start = log.log_start_offset
    first_dirty = start if first_dirty_offset is None else first_dirty_offset
    # The offset is outside the log if the log was truncated or recreated, or if the checkpoint comes from an older copy
    # of the directory (`cleanableOffsets`).
    is_wrong = not start <= first_dirty <= log.log_end_offset
    if is_wrong:
        first_dirty = start
    config = log.config
    dirty = _closed_segments_from(log, first_dirty)
    active_base = log.segments[-1].base_offset
    # Until an open transaction ends, it is unknown whether its records are the newest of their keys.
    limit = min(log.last_stable_offset, active_base)
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        limit = min(limit, next((s.base_offset for s in dirty if s.newest_time_ms > youngest), limit))
    uncleanable = _closed_segments_from(log, max(first_dirty, limit))
    first_uncleanable = uncleanable[0].base_offset if uncleanable else active_base
    must_clean = False
    if config.max_compaction_lag_ms < INT64_MAX:
        times = [time for s in dirty if (time := s.read_first_timestamp() or 0) > 0]
        # KIP-354 ignores the dirty ratio here, so that deleted personal data is removed in time.
        must_clean = min(times, default=INT64_MAX) < now_ms - config.max_compaction_lag_ms
    return Cleanable(
        first_dirty,
        first_uncleanable,
        sum(segment.size for segment in log.segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < first_uncleanable),
        must_clean,
        is_wrong,
    )


def _closed_segments_from(log: "Log", offset: int) -> "list[LogSegment]":
    """Return the closed segments from the one that contains `offset` on (Kafka's `nonActiveLogSegmentsFrom`)."""
    segments = log.segments
    if offset >= segments[-1].base_offset:
        return []
    return segments[log.segment_index(offset) : -1]


def plan_cleaning(
    log: "Log",
    first_dirty_offset: int | None,
    now_ms: int,
    *,
    dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES,
    load_factor: float = DEFAULT_LOAD_FACTOR,
    io_bytes_per_second: float | None = None,
    force: bool = False,
) -> CleaningPlan | None:
    """Return a plan for `clean`, or None if the log is not due (`Cleanable.is_due`).

    Planning is quick: it calls `stat` once per segment.

    Args:
        log: the log to clean.
        first_dirty_offset: the log's entry in `cleaner-offset-checkpoint`, or None.
        now_ms: the current time.
        dedupe_buffer_bytes: one thread's share of `log.cleaner.dedupe.buffer.size`.
        load_factor: `log.cleaner.io.buffer.load.factor`.
        io_bytes_per_second: `log.cleaner.io.max.bytes.per.second`, or None for no limit.
        force: whether to plan a cleaning as soon as any segment is cleanable.

    Raises:
        ValueError: the buffer is too small for a single key.
        OSError: a file cannot be read.
    """
    limit = max_entries(dedupe_buffer_bytes, load_factor)
    if limit < 1:
        # Without room for a single key, the cleaner would clean nothing and still report success.
        raise ValueError(f"log.cleaner.dedupe.buffer.size: {dedupe_buffer_bytes} bytes do not hold a single key")
    cleanable = find_cleanable(log, first_dirty_offset, now_ms)
    if not cleanable.cleanable_bytes or not (force or cleanable.is_due(log.config.min_cleanable_dirty_ratio)):
        return None
    config = log.config
    end = cleanable.first_uncleanable_offset
    segments = tuple(_describe_segment(segment) for segment in log.segments if segment.base_offset < end)
    clean = [segment for segment in segments if segment.base_offset < cleanable.first_dirty_offset]
    return CleaningPlan(
        directory=log.directory,
        now_ms=now_ms,
        first_dirty_offset=cleanable.first_dirty_offset,
        first_uncleanable_offset=end,
        segments=segments,
        later_segments=tuple(segment.base_offset for segment in log.segments if segment.base_offset >= end),
        producers=tuple(
            ActiveProducer(
                producer_id, entry.batches[-1].last_offset if entry.batches else _NO_DATA_OFFSET, entry.producer_epoch
            )
            for producer_id, entry in log.producers.active.items()
        ),
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        # Formats v0 and v1 have no delete horizon for tombstones. Kafka uses the time of the last write to the clean
        # part instead.
        legacy_delete_horizon_ms=clean[-1].modified_ns // NS_PER_MS - config.delete_retention_ms if clean else 0,
        max_map_entries=limit,
        io_bytes_per_second=io_bytes_per_second,
    )


def _describe_segment(segment: "LogSegment") -> SegmentToClean:
    status = os.stat(segment.log.path)
    return SegmentToClean(
        segment.base_offset,
        segment.size,
        segment.offset_index.entries * OffsetIndex.ENTRY.size,
        segment.time_index.entries * TimeIndex.ENTRY.size,
        status.st_mtime_ns,
        status.st_ino,
    )


def finish_cleaning(log: "Log", result: CleaningResult) -> int:
    """Swap in the cleaned segments, and return the first dirty offset for `cleaner-offset-checkpoint`.

    If retention has removed a segment of a group in the meantime, the group is skipped and its cleaned files are
    removed. Unless retention has removed the whole group, the function then returns the previous first dirty
    offset, so that the next cleaning repeats the work.

    Raises:
        CleaningAbortedError: the log was closed or its directory was renamed.
        OSError: a swap failed. Earlier swaps are kept, and the remaining cleaned files are removed.
    """
    # When a log is deleted, its directory is renamed immediately, and the directory of a new topic may already have the
    # old name.
    if log.directory != result.directory:
        raise CleaningAbortedError(f"{result.directory}: the log is at {log.directory} now")
    remove_cleaned_files(log.directory, keep={group.base_offset for group in result.groups})
    complete = True
    try:
        for group in result.groups:
            if _has_all_sources(log, group):
                log.replace_segments(group.base_offset, group.source_base_offsets)
            else:
                remove_cleaned_files(log.directory, only=group.base_offset)
                # A group counts as cleaned if retention has removed all of it.
                complete &= group.sources[-1].base_offset < log.segments[0].base_offset
    except StorageError as error:
        raise CleaningAbortedError(str(error)) from error
    finally:
        # If the log was deleted, its directory was renamed and there is nothing to remove.
        with contextlib.suppress(FileNotFoundError):
            remove_cleaned_files(result.directory)
    # The log may have been truncated in the meantime, and a checkpoint above its end would be invalid.
    return min(result.next_dirty_offset if complete else result.first_dirty_offset, log.log_end_offset)


def _has_all_sources(log: "Log", group: CleanedGroup) -> bool:
    """Return whether the log still has all source segments of the group, unchanged."""
    sizes = {segment.base_offset: segment.size for segment in log.segments[:-1]}
    # Sizes are compared because a truncated and refilled segment has the same base offset but other records.
    return all(sizes.get(source.base_offset) == source.size for source in group.sources)
