"""Chooses the segments that retention may remove (Kafka's `UnifiedLog.deleteOldSegments`)."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from minibroker_storage.config import LogConfig
from minibroker_storage.segment import LogSegment

_NS_PER_MS: Final = 1_000_000


def count_below(segments: Sequence[LogSegment], offset: int) -> int:
    """Return how many of the oldest segments end at or below `offset`. The active segment never counts."""
    count = 0
    for _, following in pairwise(segments):
        if following.base_offset > offset:
            break
        count += 1
    return count


def count_beyond_size(segments: Sequence[LogSegment], config: LogConfig) -> int:
    """Return how many of the oldest segments can be removed so that the log still has at least `retention.bytes`.

    An empty active segment never counts.
    """
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    # As in Kafka's `deleteRetentionSizeBreachedSegments`, the remaining segments must together have at least
    # `retention.bytes`.
    if config.retention_bytes < 0 or surplus < 0:
        return 0

    def is_surplus(segment: LogSegment) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return _count_oldest(segments, is_surplus)


def count_expired(segments: Sequence[LogSegment], config: LogConfig, now_ms: int) -> int:
    """Return how many of the oldest segments contain only records older than `retention.ms`.

    For a segment without timestamps, the time of its last write is used. An empty active segment never counts.

    Raises:
        OSError: a file's modification time cannot be read.
    """
    if config.retention_ms < 0:
        return 0
    return _count_oldest(segments, lambda segment: now_ms - newest_time(segment) > config.retention_ms)


def newest_time(segment: LogSegment) -> int:
    """Return a segment's largest timestamp or, if it has no timestamps, its log file's modification time, in ms.

    Raises:
        OSError: the modification time cannot be read.
    """
    timestamp = segment.largest_timestamp.timestamp
    return timestamp if timestamp >= 0 else os.stat(segment.log.path).st_mtime_ns // _NS_PER_MS


def _count_oldest(segments: Sequence[LogSegment], is_deletable: Callable[[LogSegment], bool]) -> int:
    count = 0
    for number, segment in enumerate(segments):
        # Stop at the first segment that stays, since a log must not have holes.
        if (number == len(segments) - 1 and not segment.size) or not is_deletable(segment):
            break
        count += 1
    return count
