"""Chooses the segments that retention may remove (Kafka's `UnifiedLog.deleteOldSegments`).

A log must not have holes, so each function counts segments from the oldest one up to the first that must stay. An empty
active segment never counts.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, takewhile

from minibroker_storage.config import LogConfig
from minibroker_storage.segment import LogSegment


def count_below(segments: Sequence[LogSegment], offset: int) -> int:
    """Return how many of the oldest segments end at or below `offset`. The active segment never counts."""
    return bisect_right(segments, offset, lo=1, key=lambda segment: segment.base_offset) - 1


def count_beyond_size(segments: Sequence[LogSegment], config: LogConfig) -> int:
    """Return how many of the oldest segments can be removed so that the log still has at least `retention.bytes`.

    As in Kafka's `deleteRetentionSizeBreachedSegments`, all remaining segments together must have at least that size.
    """
    if config.retention_bytes < 0:
        return 0
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    return sum(size <= surplus for size in accumulate(segment.size for segment in _removable_segments(segments)))


def count_expired(segments: Sequence[LogSegment], config: LogConfig, now_ms: int) -> int:
    """Return how many of the oldest segments contain only records older than `retention.ms`.

    For a segment without timestamps, the time of its last write is used.

    Raises:
        OSError: a file's modification time cannot be read.
    """
    if config.retention_ms < 0:
        return 0
    newest_times = (segment.newest_time_ms for segment in _removable_segments(segments))
    return sum(1 for _ in takewhile(lambda time: now_ms - time > config.retention_ms, newest_times))


def _removable_segments(segments: Sequence[LogSegment]) -> Sequence[LogSegment]:
    return segments if segments[-1].size else segments[:-1]
