"""Indexes that record the windows of entries read by a search."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minibroker_storage.index_file import WINDOW_BYTES, IndexFile
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex


class Probe(NamedTuple):
    """A window of entries read by a search.

    Attributes:
        first: the first slot of the window.
        end: the slot after the last one.
        at_or_below: how many entries of the window are at or below the key.
    """

    first: int
    end: int
    at_or_below: int


class _RecordingIndex(IndexFile[Any]):
    """A copy of an index in its current state. Its `lookup` records the probes and finds no window in the cache."""

    def __init__(self, index: IndexFile[Any]) -> None:
        for name in (*IndexFile.__slots__, *type(index).__slots__):
            setattr(self, name, getattr(index, name))
        self.probes: list[Probe] = []

    def _search(self, key: int, guess: int, count_in: Callable[[Any, int], int]) -> tuple[Any, int, int]:
        size = self.ENTRY.size
        windows: list[tuple[int, int]] = []

        def count_and_note(window: Any, key: int) -> int:
            count = count_in(window, key)
            windows.append((memoryview(window).nbytes // size, count))
            return count

        result = super()._search(key, guess, count_and_note)
        # The searched slots were not recorded, because they can be derived from the counts.
        self.probes = _place_probes(windows, guess, self.entries, WINDOW_BYTES // size)
        return result


class RecordingOffsetIndex(_RecordingIndex, OffsetIndex):
    """An offset index that records the probes of a look-up."""


class RecordingTimeIndex(_RecordingIndex, TimeIndex):
    """A time index that records the probes of a look-up."""


def _place_probes(windows: Sequence[tuple[int, int]], guess: int, entries: int, slots: int) -> list[Probe]:
    low, high = 0, (entries - 1) // slots
    number = min(max(guess, 0) // slots, high)
    probes: list[Probe] = []
    for size, count in windows:
        first = number * slots
        probes.append(Probe(first, first + size, count))
        if count:
            low = number + 1
        else:
            high = number - 1
        number = (low + high) // 2
    return probes
