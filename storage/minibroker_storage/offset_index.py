"""From an offset to a position in the log file (Kafka's `OffsetIndex`).

Whether an entry is true after a crash: see the crash rule of `segment.LogSegment`, and `recovery`, which relies on it.
"""

import sys
from array import array
from bisect import bisect_right
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.index_file import IndexFile, IndexState

_SWAP: Final = sys.byteorder == "little"
_POSITION_MASK: Final = 0xFFFFFFFF
_RELATIVE_SHIFT: Final = 32
_NOTHING: Final = -1
_NO_ENTRIES: Final = array("q")


def _count_up_to(window: "array[int]", position: int) -> int:
    """The number of the window's entries that have a position <= `position`."""
    return bisect_right(window, position, key=_POSITION_MASK.__and__)


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and the position in the log file where that batch starts."""

    offset: int
    position: int


class OffsetIndex(IndexFile["array[int]"]):
    """Sparse map from offsets to positions in the log file (Kafka's `OffsetIndex`).

    Bytes: 8 per entry, big-endian: relative offset int32 (the last offset of a batch, minus the segment's base
    offset), then int32 position where that batch starts. Both ascend. At most one entry per `index.interval.bytes` of
    log. Crash rule: see `IndexFile` and `LogSegment`.
    """

    __slots__ = ("last_offset", "last_position")

    ENTRY: ClassVar[Struct] = Struct(">ii")

    last_offset: int
    last_position: int

    @property
    def is_full(self) -> bool:
        """Whether every preallocated slot is taken, staged entries counted."""
        return self.entries_with_staged >= self.max_entries

    def stage(self, offset: int, position: int) -> None:
        """Remember an entry for `commit()`. The caller keeps offsets ascending and looks at `is_full` first."""
        self._staged.extend(self.ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset
        self.last_position = position

    def lookup(self, offset: int) -> OffsetPosition:
        """The greatest written entry at or below `offset`; the segment's start (base offset, 0) when there is none."""
        window, count = self._around(offset)
        return self._position(window[count - 1]) if count else OffsetPosition(self.base_offset, 0)

    def positions_around(self, offset: int) -> tuple[int, int]:
        """Where the batch of `lookup` starts, and that of the entry behind it.

        The second one holds `offset`, unless a batch between the two does. It is -1 where there is none, and where
        `offset` is the last one of the first batch.
        """
        window, count = self._around(offset)
        behind = window[count] & _POSITION_MASK if count < len(window) else _NOTHING
        if not count:
            return 0, behind
        entry = window[count - 1]
        return entry & _POSITION_MASK, behind if entry >> _RELATIVE_SHIFT < offset - self.base_offset else _NOTHING

    def _around(self, offset: int) -> tuple["array[int]", int]:
        """A window, and how many of its entries are at or below `offset`; without entries it is empty."""
        key = offset - self.base_offset
        entries = self.entries
        if not entries:
            return _NO_ENTRIES, 0
        span = self.last_offset - self.base_offset
        guess = entries * key // span if key < span else entries
        window, count, _ = self._search(key, guess, self._count_at_or_below)
        return window, count

    def entry_at_or_below(self, position: int) -> OffsetPosition:
        """The entry of the last indexed batch that starts at or before `position`; (base offset, 0) without one."""
        if not self.entries:
            return OffsetPosition(self.base_offset, 0)
        window, count = self._around_position(position)
        return self._position(window[count - 1]) if count else OffsetPosition(self.base_offset, 0)

    def offset_at_or_above(self, position: int) -> int | None:
        """The offset of the first indexed batch that starts at or behind `position`, None when there is none."""
        if not self.entries:
            return None
        window, count = self._around_position(position - 1)
        return self._position(window[count]).offset if count < len(window) else None

    def _around_position(self, position: int) -> tuple["array[int]", int]:
        """A window, and how many of its entries are of batches that start at or before `position`."""
        guess = self.entries * position // max(self.last_position, 1)
        window, count, _ = self._search(position, guess, _count_up_to)
        return window, count

    def _position(self, entry: int) -> OffsetPosition:
        return OffsetPosition(self.base_offset + (entry >> _RELATIVE_SHIFT), entry & _POSITION_MASK)

    def entry(self, slot: int) -> OffsetPosition:
        """Return the written entry in `slot`. `IndexError` outside 0..`entries` - 1."""
        relative, position = self.ENTRY.unpack(self._read_entry(slot))
        return OffsetPosition(self.base_offset + relative, position)

    def sanity_check(self, log_size: int, next_base_offset: int | None) -> None:
        """The last entry lies in this segment: its offset at least the base offset, its position inside the log."""
        if not self.entries:
            return
        last = OffsetPosition(self.last_offset, self.last_position)
        if last.offset < self.base_offset or (next_base_offset is not None and last.offset >= next_base_offset):
            raise CorruptIndexError(f"{self.file.path}: last offset {last.offset} is outside the segment")
        if not 0 < last.position < log_size:
            raise CorruptIndexError(f"{self.file.path}: last position {last.position} is outside 0..{log_size}")

    @property
    def state(self) -> IndexState:
        """Number of entries and the last entry's two fields."""
        return self.entries, self.last_offset, self.last_position

    def rollback(self, state: IndexState) -> None:
        """See `IndexFile.rollback`."""
        self._staged = bytearray()
        self.entries, self.last_offset, self.last_position = state
        self._cut_quietly()

    def _reset_last(self) -> None:
        self.last_offset = self.base_offset
        self.last_position = 0

    def _set_last(self, entry: bytes) -> None:
        relative, self.last_position = self.ENTRY.unpack(entry)
        self.last_offset = self.base_offset + relative

    @staticmethod
    def _relative_offset(entry: bytes) -> int:
        return int.from_bytes(entry[:4], "big", signed=True)

    @staticmethod
    def _decoded(entries: bytes) -> "array[int]":
        # One entry read as one big-endian int64 sorts by its offset, so that bisect needs no Python call per entry.
        decoded = array("q", entries)
        if _SWAP:
            decoded.byteswap()
        return decoded

    def _count_at_or_below(self, window: "array[int]", key: int) -> int:
        return bisect_right(window, key << _RELATIVE_SHIFT | _POSITION_MASK)
