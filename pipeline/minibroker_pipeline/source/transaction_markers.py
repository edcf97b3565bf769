"""Transaction indexes held against the markers in their segments, since an index has no checksum.

Without its index a segment looks as if nothing in it had been aborted. A query for committed records reads the log
anyway, so it compares the markers in it with the index.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2, RECORD_BATCH_OVERHEAD, TRANSACTIONAL_FLAG

_ABORT: Final = b"\0\0"
_KEY_SIZE_AT: Final = RECORD_BATCH_OVERHEAD + 4
_KEY_SIZE: Final = 8
"""Four, zigzag."""
_TYPE_AT: Final = RECORD_BATCH_OVERHEAD + 7
_UNSEEN: Final = -1


class _Marker(NamedTuple):
    """A transaction's end. `start` is its first record that has been seen, `_UNSEEN` if none has."""

    producer_id: int
    offset: int
    is_abort: bool
    start: int


class MarkerWatch:
    """The markers of one range of a log, chunk by chunk, and what the index says of it."""

    def __init__(self, aborted: Iterable[tuple[int, int, int]]) -> None:
        self._open: dict[int, int] = {}
        self._last_markers: dict[int, int] = {}
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for producer, first, last in aborted:
            self._ranges.setdefault(producer, []).append((first, last))
        for ranges in self._ranges.values():
            ranges.sort()

    def is_doubtful(self, data: memoryview, headers: NDArray[Any]) -> bool:
        """Whether one of these entries' markers contradicts the index, or may do so.

        An abort marker without an entry may be right: if its transaction has no record in this log.
        """
        doubtful = False
        for marker in self._markers(data, headers):
            span = self._span_around(marker)
            if span is None:
                doubtful |= marker.is_abort
            else:
                first, last = span
                doubtful |= not marker.is_abort or last != marker.offset or 0 <= marker.start < first
                doubtful |= first <= self._last_markers.get(marker.producer_id, -1)
            self._last_markers[marker.producer_id] = marker.offset
        return doubtful

    def _span_around(self, marker: _Marker) -> tuple[int, int] | None:
        ranges = self._ranges.get(marker.producer_id, [])
        slot = bisect_right(ranges, (marker.offset, marker.offset)) - 1
        return ranges[slot] if slot >= 0 and ranges[slot][1] >= marker.offset else None

    def _markers(self, data: memoryview, headers: NDArray[Any]) -> list[_Marker]:
        """In the order of producers, and of each producer's offsets."""
        is_wanted = (headers["attributes"] & TRANSACTIONAL_FLAG != 0) & (headers["magic"] == MAGIC_V2)
        entries = headers[is_wanted]
        if not len(entries):
            return []
        entries = entries[np.lexsort((entries["base_offset"], entries["producer_id"]))]
        producers, offsets = entries["producer_id"], entries["base_offset"]
        is_marker = entries["attributes"] & CONTROL_FLAG != 0
        is_first = np.ones(len(entries), np.bool_)  # of its producer, or behind a marker of it
        is_first[1:] = (producers[1:] != producers[:-1]) | is_marker[:-1]
        firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(entries)), 0))
        lines = np.flatnonzero(is_marker)
        starts = np.where(is_first[lines], _UNSEEN, offsets[firsts[lines]])
        columns = (producers[lines], offsets[lines], entries["position"][lines], starts)
        markers = [
            _Marker(producer, offset, _is_abort(data, position), self._open.pop(producer, start))
            for producer, offset, position, start in zip(*(column.tolist() for column in columns), strict=True)
        ]
        is_last = np.append(producers[1:] != producers[:-1], [True])
        for line in np.flatnonzero(is_last & ~is_marker).tolist():
            self._open.setdefault(int(producers[line]), int(offsets[firsts[line]]))
        return markers


def _is_abort(data: memoryview, position: int) -> bool:
    """Whether the marker there is one; False for an unreadable one, which others report."""
    if len(data) > position + _TYPE_AT + 2 and data[position + _KEY_SIZE_AT] == _KEY_SIZE:  # as brokers write it
        return bytes(data[position + _TYPE_AT : position + _TYPE_AT + 2]) == _ABORT
    try:
        marker = next(iter(RecordBatch(data[position:])), None)
    except DecodeError:
        return False
    return marker is not None and marker.key is not None and bytes(marker.key[2:4]) == _ABORT


def contradictions(
    in_index: Iterable[tuple[int, int, int]], in_log: Iterable[tuple[int, int, int]], *, start: int, low: int, high: int
) -> list[tuple[int, int, int]]:
    """Aborted transactions that end in [low, high) and that either an index or the log alone knows, ascending.

    `start` is where the log begins: the first offset of what began before is unknown here.
    """
    known, found = set(in_index), set(in_log)
    older = {(producer, last) for producer, first, last in known if first < start}
    differing = [one for one in found - known if (one[0], one[2]) not in older]
    differing += [one for one in known - found if one[1] >= start]
    return sorted((one for one in differing if low <= one[2] < high), key=itemgetter(2))
