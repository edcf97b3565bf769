"""Indexes that record the windows of entries read by a search."""

from collections.abc import Callable
from typing import Any, NamedTuple

from minibroker_storage.index_file import IndexFile
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

    def _search(self, key: int, guess: int, count_in: Callable[[Any, int], int]) -> tuple[Any, int]:
        def count_and_record(window: Any, key: int) -> int:
            count = count_in(window, key)
            end = self._first + memoryview(window).nbytes // self.ENTRY.size
            self.probes.append(Probe(self._first, end, count))
            return count

        return super()._search(key, guess, count_and_record)

    def _window(self, slot: int, max_count: int) -> Any:
        self._first = slot
        return super()._window(slot, max_count)


class RecordingOffsetIndex(_RecordingIndex, OffsetIndex):
    """An offset index that records the probes of a look-up."""


class RecordingTimeIndex(_RecordingIndex, TimeIndex):
    """A time index that records the probes of a look-up."""
