"""The index that maps offsets to positions in the log file (Kafka's `OffsetIndex`).

`segment.LogSegment` explains which entries can be trusted after a crash. `recovery` relies on this.
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
    """Return the number of entries in the window with a position <= `position`."""
    return bisect_right(window, position, key=_POSITION_MASK.__and__)


class OffsetPosition(NamedTuple):
    """The last offset of a batch and the position of its first byte in the log file."""

    offset: int
    position: int


class OffsetIndex(IndexFile["array[int]"]):
    """A sparse map from offsets to positions in the log file (Kafka's `OffsetIndex`).

    Each entry has 8 bytes, big-endian: the relative offset as int32 (the last offset of a batch minus the segment's
    base offset), then the position of that batch as int32. Offsets and positions both ascend. There is at most one
    entry per `index.interval.bytes` of log. See `IndexFile` and `LogSegment` for crash safety.
    """

    __slots__ = ("last_offset", "last_position")

    ENTRY: ClassVar[Struct] = Struct(">ii")
    OFFSET_FIELD: ClassVar[int] = 0

    last_offset: int
    last_position: int

    def stage(self, offset: int, position: int) -> None:
        """Stage an entry for `commit()`. The caller must check `is_full` first, and offsets must ascend."""
        self._staged.extend(self.ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset
        self.last_position = position

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last written entry whose offset is at or below `offset`, or (base offset, 0) without a match."""
        window, count = self._find_window(offset)
        return self._decode_entry(window[count - 1]) if count else OffsetPosition(self.base_offset, 0)

    def positions_around(self, offset: int) -> tuple[int, int]:
        """Return the position of the batch found by `lookup`, and the position of the next indexed batch.

        `offset` is in the second batch or in one between the first and the second. The second position is -1 if there
        is no later indexed batch, or if `offset` is the last offset of the first batch.
        """
        window, count = self._find_window(offset)
        next_position = window[count] & _POSITION_MASK if count < len(window) else _NOTHING
        if not count:
            return 0, next_position
        entry = window[count - 1]
        is_above = entry >> _RELATIVE_SHIFT < offset - self.base_offset
        return entry & _POSITION_MASK, next_position if is_above else _NOTHING

    def _find_window(self, offset: int) -> tuple["array[int]", int]:
        """Return a window and the number of its entries at or below `offset`.

        The window is empty if the index has no entries.
        """
        key = offset - self.base_offset
        entries = self.entries
        if not entries:
            return _NO_ENTRIES, 0
        span = self.last_offset - self.base_offset
        guess = entries * key // span if key < span else entries
        return self._search(key, guess, self._count_at_or_below)

    def entry_at_or_below(self, position: int) -> OffsetPosition:
        """Return the last entry whose batch starts at or before `position`, or (base offset, 0) without a match."""
        window, count = self._find_window_of(position)
        return self._decode_entry(window[count - 1]) if count else OffsetPosition(self.base_offset, 0)

    def offset_at_or_above(self, position: int) -> int | None:
        """Return the offset in the first entry whose batch starts at or after `position`, or None without a match."""
        window, count = self._find_window_of(position - 1)
        return self._decode_entry(window[count]).offset if count < len(window) else None

    def _find_window_of(self, position: int) -> tuple["array[int]", int]:
        """Return a window and the number of its entries for batches that start at or before `position`."""
        if not self.entries:
            return _NO_ENTRIES, 0
        guess = self.entries * position // max(self.last_position, 1)
        return self._search(position, guess, _count_up_to)

    def _decode_entry(self, entry: int) -> OffsetPosition:
        return OffsetPosition(self.base_offset + (entry >> _RELATIVE_SHIFT), entry & _POSITION_MASK)

    def entry(self, slot: int) -> OffsetPosition:
        """Return the written entry in `slot`, which must be in 0..`entries` - 1."""
        relative, position = self.ENTRY.unpack(self._read(slot, 1))
        return OffsetPosition(self.base_offset + relative, position)

    def sanity_check(self, log_size: int, next_base_offset: int | None) -> None:
        """Check that the last entry belongs to this segment.

        The entry's offset must not be below the base offset, and its position must be inside the log file.

        Raises:
            CorruptIndexError: the entry is outside the segment.
        """
        if not self.entries:
            return
        last = OffsetPosition(self.last_offset, self.last_position)
        if last.offset < self.base_offset or (next_base_offset is not None and last.offset >= next_base_offset):
            raise CorruptIndexError(f"{self.file.path}: last offset {last.offset} is outside the segment")
        if not 0 < last.position < log_size:
            raise CorruptIndexError(f"{self.file.path}: last position {last.position} is outside 0..{log_size}")

    @property
    def state(self) -> IndexState:
        """The number of entries, and the offset and position of the last one."""
        return self.entries, self.last_offset, self.last_position

    def rollback(self, state: IndexState) -> None:
        """Restore an earlier `state` (see `IndexFile.rollback`)."""
        self._staged = bytearray()
        self.entries, self.last_offset, self.last_position = state
        self._truncate_quietly()

    def _set_last(self, entry: bytes) -> None:
        relative, self.last_position = self.ENTRY.unpack(entry) if entry else (0, 0)
        self.last_offset = self.base_offset + relative

    @staticmethod
    def _decode_window(entries: bytes) -> "array[int]":
        # An entry decoded as one int64 sorts by its offset, so bisect needs no Python call per entry.
        decoded = array("q", entries)
        if _SWAP:
            decoded.byteswap()
        return decoded

    def _count_at_or_below(self, window: "array[int]", key: int) -> int:
        return bisect_right(window, key << _RELATIVE_SHIFT | _POSITION_MASK)
