"""Indexes that note how their own search goes: the windows of entries that it reads."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker_storage.index_file import WINDOW_BYTES
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex

if TYPE_CHECKING:
    from array import array

_STATE: Final = ("_cuts", "_staged", "base_offset", "entries", "file", "max_bytes", "last_offset")


class Probe(NamedTuple):
    """One window of entries that the search has read.

    Attributes:
        first, end: slots, the second behind the last one.
        at_or_below: so many of them are at or below the key.
    """

    first: int
    end: int
    at_or_below: int


class WatchedOffsetIndex(OffsetIndex):
    """An index as it is at the moment; its `lookup` notes the probes. Memory has none of its windows yet."""

    __slots__ = ("probes",)

    def __init__(self, index: OffsetIndex) -> None:
        _take_state(self, index, "last_position")
        self.probes: list[Probe] = []

    def _search(
        self, key: int, guess: int, count_in: "Callable[[array[int], int], int]"
    ) -> "tuple[array[int], int, int]":
        noting = _Noting(count_in, self.ENTRY.size)
        found = super()._search(key, guess, noting)
        self.probes = noting.probes(guess, self.entries)
        return found


class WatchedTimeIndex(TimeIndex):
    """The same for times."""

    __slots__ = ("probes",)

    def __init__(self, index: TimeIndex) -> None:
        _take_state(self, index, "last_timestamp")
        self.probes: list[Probe] = []

    def _search(self, key: int, guess: int, count_in: Callable[[bytes, int], int]) -> tuple[bytes, int, int]:
        noting = _Noting(count_in, self.ENTRY.size)
        found = super()._search(key, guess, noting)
        self.probes = noting.probes(guess, self.entries)
        return found


def _take_state(watched: Any, index: Any, last: str) -> None:
    for name in (*_STATE, last):
        setattr(watched, name, getattr(index, name))


class _Noting:
    """Counts in the windows of a search, and notes the size of each and the count."""

    def __init__(self, count_in: Callable[[Any, int], int], entry_size: int) -> None:
        self._count_in = count_in
        self._entry_size = entry_size
        self._windows: list[tuple[int, int]] = []

    def __call__(self, window: "bytes | array[int]", key: int) -> int:
        count = self._count_in(window, key)
        self._windows.append((memoryview(window).nbytes // self._entry_size, count))
        return count

    def probes(self, guess: int, entries: int) -> list[Probe]:
        """The windows with their slots, which follow from the counts (see `IndexFile._search`)."""
        return _with_slots(self._windows, guess, entries, WINDOW_BYTES // self._entry_size)


def _with_slots(windows: Sequence[tuple[int, int]], guess: int, entries: int, slots: int) -> list[Probe]:
    low, high = 0, (entries - 1) // slots
    number = min(max(guess, 0) // slots, high)
    found: list[Probe] = []
    for size, count in windows:
        first = number * slots
        found.append(Probe(first, first + size, count))
        if count:
            low = number + 1
        else:
            high = number - 1
        number = (low + high) // 2
    return found
