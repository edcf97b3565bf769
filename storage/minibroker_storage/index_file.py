"""The base of both indexes of a segment (Kafka's `AbstractIndex`): entries of fixed size in order, binary search."""

import contextlib
import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar, Final, Generic, TypeVar

from minibroker_storage.errors import CorruptIndexError, LogClosedError
from minibroker_storage.files import FileHandle, pwrite_all

WINDOW_BYTES: Final = 4096
"""The search narrows the file down to about this much and finishes in memory."""
_MOST_KEPT: Final = 768
"""Windows that stay in memory, of all indexes together: 3.7 MB, for 1.5 GB of log with an entry each 4 KB."""


IndexState = tuple[int, int, int]
_Window = TypeVar("_Window")


class IndexFile(ABC, Generic[_Window]):
    """A file of ascending fixed-size entries, preallocated while its segment is active (Kafka's `AbstractIndex`).

    Bytes: `entries` entries from position 0, then zeros up to `max_bytes` rounded down to whole entries. The file is
    trimmed to its entries at roll and at close. Entries are staged in memory and written by `commit()` with pwrite:
    unlike a mapped file, a full disk then is an `OSError` and no signal. Of the index, memory holds its last entry,
    and for a while the windows that searches have read.

    Crash rule: an index has no checksum. After an unclean stop it is rebuilt from its log, or checked against it.
    `LogSegment` says what an entry proves. Zeros at the end of the file count as free slots, so that a file that was
    not trimmed still shows where its entries end. (The one true entry of zeros, timestamp 0 at relative offset 0, is
    lost by this and found again in the log.)
    """

    __slots__ = ("_cuts", "_staged", "base_offset", "entries", "file", "max_bytes")

    ENTRY: ClassVar[Struct]

    def __init__(self, file: FileHandle, base_offset: int, max_bytes: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self.max_bytes = self.rounded(max_bytes)
        self.entries = 0
        self._cuts = 0
        self._staged = bytearray()
        self._reset_last()

    @classmethod
    def rounded(cls, size: int) -> int:
        """`size` rounded down to whole entries, as `segment.index.bytes` is (500 is 496 for 8 byte entries)."""
        return size - size % cls.ENTRY.size

    @property
    def max_entries(self) -> int:
        """Entries that the preallocated file can hold."""
        return self.max_bytes // self.ENTRY.size

    @property
    def entries_with_staged(self) -> int:
        """Written entries and those that `commit()` is about to write."""
        return self.entries + len(self._staged) // self.ENTRY.size

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether the segment has to be rolled because this index takes no more entries."""

    @abstractmethod
    def _reset_last(self) -> None:
        """Forget the last entry: the index is empty."""

    @abstractmethod
    def _set_last(self, entry: bytes) -> None:
        """Remember the last entry."""

    @staticmethod
    @abstractmethod
    def _decoded(entries: bytes) -> _Window:
        """Entries in the form that is searched, and kept in memory."""

    @abstractmethod
    def _count_at_or_below(self, window: _Window, key: int) -> int:
        """The number of the window's entries that have a key <= `key`."""

    @abstractmethod
    def sanity_check(self, log_size: int, next_base_offset: int | None) -> None:
        """Judge a loaded index by its ends, as Kafka does. `CorruptIndexError`; a rebuild is what follows."""

    def load(self) -> None:
        """Take over the file as it is: count its entries and read the last one. Reads the tail only.

        `CorruptIndexError` when its size is no multiple of the entry size, `FileNotFoundError` when it is missing.
        """
        fd = self.file.fd()
        size = os.fstat(fd).st_size
        # A torn write, or another file: no entry of it can be trusted.
        if size % self.ENTRY.size:
            raise CorruptIndexError(f"{self.file.path}: {size} bytes are not a multiple of {self.ENTRY.size}")
        self._staged = bytearray()
        # Windows that searches have kept are of the file as it was.
        self._cuts += 1
        self.entries = self._written_entries(size // self.ENTRY.size)
        self._reload_last()

    def preallocate(self) -> None:
        """Give the file its full size. Sparse: the zeros take no room on disk."""
        # `segment.index.bytes` may have become smaller: entries that are there stay.
        os.ftruncate(self.file.fd(), max(self.max_bytes, self.entries * self.ENTRY.size))

    def trim(self) -> None:
        """Cut the file to its entries."""
        os.ftruncate(self.file.fd(), self.entries * self.ENTRY.size)

    def trim_free_slots(self) -> None:
        """Trim a loaded file that its owner had no time to trim. `OSError`.

        A single slot stays: its zeros may be the entry of timestamp 0.
        """
        if os.fstat(self.file.fd()).st_size > max(self.entries, 1) * self.ENTRY.size:
            self.trim()

    def clear(self) -> None:
        """Drop all entries, staged ones too; the file becomes zeros of its full size."""
        self._staged = bytearray()
        self._cut_to(0)

    def commit(self) -> None:
        """Write the staged entries. `OSError` leaves them staged, for `rollback()`."""
        staged = self._staged
        if staged:
            size = self.ENTRY.size
            pwrite_all(self.file.fd(), staged, self.entries * size)
            self.entries += len(staged) // size
            self._staged = bytearray()

    @property
    @abstractmethod
    def state(self) -> IndexState:
        """The number of written entries and the last one, for `rollback`. Taken while nothing is staged."""

    @abstractmethod
    def rollback(self, state: IndexState) -> None:
        """Go back to an earlier `state`, in memory.

        A file that has more is cut, or else, on a disk that fails, keeps bytes that no lookup reaches, until they are
        overwritten or trimmed. Never raises.
        """

    def _cut_quietly(self) -> None:
        with contextlib.suppress(OSError, LogClosedError):
            self._cut_to(self.entries)

    def truncate_to(self, offset: int) -> None:
        """Drop all entries with an offset >= `offset`, and give the file its full size again."""
        relative = offset - self.base_offset
        slots = range(self.entries)
        self._cut_to(bisect_left(slots, relative, key=lambda slot: self._relative_offset(self._read(slot, 1))))

    def _cut_to(self, entries: int) -> None:
        self._cuts += 1
        fd = self.file.fd()
        os.ftruncate(fd, entries * self.ENTRY.size)
        self.entries = entries
        self.preallocate()
        self._reload_last()

    @staticmethod
    @abstractmethod
    def _relative_offset(entry: bytes) -> int:
        """The entry's offset minus the base offset."""

    def _read_entry(self, slot: int) -> bytes:
        """Return the written entry in `slot`. `IndexError` outside 0..`entries` - 1."""
        if not 0 <= slot < self.entries:
            raise IndexError(f"{self.file.path}: no slot {slot} among {self.entries}")
        return self._read(slot, 1)

    def _read(self, slot: int, count: int) -> bytes:
        size = self.ENTRY.size
        return os.pread(self.file.fd(), count * size, slot * size)

    def _reload_last(self) -> None:
        if self.entries:
            self._set_last(self._read(self.entries - 1, 1))
        else:
            self._reset_last()

    def _written_entries(self, slots: int) -> int:
        """Slots before the zeros of a file that was not trimmed."""
        if slots and any(self._read(slots - 1, 1)):
            return slots
        return bisect_left(range(slots), 1, key=lambda slot: not any(self._read(slot, 1)))

    def _search(self, key: int, guess: int, count_in: Callable[[_Window, int], int]) -> tuple[_Window, int, int]:
        """The window in which the entries with a key <= `key` end, how many of its entries have one, and its slot.

        `count_in` counts them in a window. The first window is the one with the slot `guess`, which is right in a log
        of even batches; the search bisects from there on. The count is 0 only at the beginning of the file. The entry
        behind those counted is in the window, too, unless they are all that there are. There has to be an entry.
        """
        slots = WINDOW_BYTES // self.ENTRY.size
        low, high = 0, (self.entries - 1) // slots
        number = min(max(guess, 0) // slots, high)
        while True:
            window = self._window(number)
            count = count_in(window, key)
            if not count and number > low:
                high = number - 1
            elif count > slots and number < high:
                low = number + 1
            else:
                return window, count, number * slots
            number = (low + high) // 2

    def _window(self, number: int) -> _Window:
        """Each window begins with the entry that the one before ends with."""
        slots = WINDOW_BYTES // self.ENTRY.size
        slot = number * slots
        window: _Window = _kept_window(self, self._cuts, slot, min(slots + 1, self.entries - slot))
        return window

    def read_window(self, slot: int, count: int) -> _Window:
        """Written entries in the form that is searched. `OSError`."""
        return self._decoded(self._read(slot, count))


@lru_cache(_MOST_KEPT)
def _kept_window(index: IndexFile[Any], cuts: int, slot: int, count: int) -> Any:  # noqa: ARG001 - see below
    """Written entries, which stay as they are until the index is cut: `cuts` tells what was read before from after."""
    return index.read_window(slot, count)
