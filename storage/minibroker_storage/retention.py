"""Which segments a log does not have to keep any longer (Kafka's `UnifiedLog.deleteOldSegments`)."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from minibroker_storage.config import LogConfig
from minibroker_storage.segment import LogSegment

_NS_PER_MS: Final = 1_000_000


def count_below(segments: Sequence[LogSegment], offset: int) -> int:
    """The number of the oldest segments that end at or below `offset`; never the active one."""
    count = 0
    for _, following in pairwise(segments):
        if following.base_offset > offset:
            break
        count += 1
    return count


def count_beyond_size(segments: Sequence[LogSegment], config: LogConfig) -> int:
    """The number of the oldest segments without which the log is still as large as `retention.bytes`.

    Never an empty active one.
    """
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    # Kafka's rule (`deleteRetentionSizeBreachedSegments`): a segment goes only if the rest still has `retention.bytes`.
    if config.retention_bytes < 0 or surplus < 0:
        return 0

    def is_surplus(segment: LogSegment) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return _count(segments, is_surplus)


def count_expired(segments: Sequence[LogSegment], config: LogConfig, now_ms: int) -> int:
    """The number of the oldest segments whose records are all older than `retention.ms`; never an empty active one.

    A segment without timestamps is as old as its last write. `OSError`.
    """
    if config.retention_ms < 0:
        return 0
    return _count(segments, lambda segment: now_ms - newest_time(segment) > config.retention_ms)


def newest_time(segment: LogSegment) -> int:
    """The segment's largest timestamp, or else when its log file was last written, in ms. `OSError`."""
    timestamp = segment.largest_timestamp.timestamp
    return timestamp if timestamp >= 0 else os.stat(segment.log.path).st_mtime_ns // _NS_PER_MS


def _count(segments: Sequence[LogSegment], is_deletable: Callable[[LogSegment], bool]) -> int:
    count = 0
    for number, segment in enumerate(segments):
        # From the oldest on, and never past one that stays: a log has no holes.
        if (number == len(segments) - 1 and not segment.size) or not is_deletable(segment):
            break
        count += 1
    return count
