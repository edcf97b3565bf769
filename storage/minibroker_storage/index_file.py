"""Base class of a segment's offset and time index (Kafka's `AbstractIndex`), with a binary search."""

import contextlib
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar, Final, Generic, TypeVar

from minibroker_storage.errors import CorruptIndexError, LogClosedError
from minibroker_storage.files import FileHandle, pwrite_all
from minibroker_storage.portability import os

WINDOW_BYTES: Final = 4096
"""A search narrows the file down to a window of about this size and finishes in memory."""
_MAX_CACHED_WINDOWS: Final = 768
"""Maximum number of cached windows over all indexes: 3.7 MB, which covers 1.5 GB of log with an entry every 4 KB."""


IndexState = tuple[int, int, int]
_Window = TypeVar("_Window")


class IndexFile(ABC, Generic[_Window]):
    """A file of ascending fixed-size entries, preallocated while its segment is active (Kafka's `AbstractIndex`).

    The file contains `entries` entries from position 0, then zeros up to `max_bytes`, rounded down to whole
    entries. It is trimmed to its entries when the segment is rolled or closed. Entries are staged in memory and
    written by `commit()` with pwrite. With a memory-mapped file, a full disk would cause a signal; with pwrite, it
    raises `OSError`. Memory holds only the last entry and a cache of windows read by searches.

    An index has no checksum. After an unclean shutdown it is rebuilt from its log or checked against the log;
    `LogSegment` explains what an entry guarantees. Trailing zeros count as free slots, so the number of entries is
    known even for an untrimmed file. (This drops one valid entry that consists of zeros: timestamp 0 at relative
    offset 0. Its record is found in the log instead.)
    """

    __slots__ = ("_cuts", "_staged", "base_offset", "entries", "file", "max_bytes")

    ENTRY: ClassVar[Struct]
    OFFSET_FIELD: ClassVar[int]
    """The index of the relative offset (offset minus base offset) among the fields of an entry."""
    RESERVED_SLOTS: ClassVar[int] = 0

    def __init__(self, file: FileHandle, base_offset: int, max_bytes: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self.max_bytes = self.round_down(max_bytes)
        self.entries = 0
        self._cuts = 0
        self._staged = bytearray()
        self._set_last(b"")

    @classmethod
    def round_down(cls, size: int) -> int:
        """Return `size` rounded down to whole entries (500 becomes 496 for 8-byte entries), as Kafka does."""
        return size - size % cls.ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether written and staged entries fill all slots except the reserved ones, so the segment must be rolled."""
        size = self.ENTRY.size
        return self.entries * size + len(self._staged) >= self.max_bytes - self.RESERVED_SLOTS * size

    @abstractmethod
    def _set_last(self, entry: bytes) -> None:
        """Set the fields that describe the last entry. `entry` is empty if there are no entries."""

    @staticmethod
    @abstractmethod
    def _decode_window(entries: bytes) -> _Window:
        """Decode entries into the form used for searching and caching."""

    @abstractmethod
    def _count_at_or_below(self, window: _Window, key: int) -> int:
        """Return the number of entries in the window with a key <= `key`."""

    @abstractmethod
    def sanity_check(self, log_size: int, next_base_offset: int | None) -> None:
        """Check the first and last entry of a loaded index, as Kafka does.

        Raises:
            CorruptIndexError: the index must be rebuilt.
        """

    def load(self) -> None:
        """Load the existing file: count its entries and read the last one. Only the end of the file is read.

        Raises:
            CorruptIndexError: the file size is not a multiple of the entry size.
            FileNotFoundError: the file is missing.
        """
        fd = self.file.fd()
        size = os.fstat(fd).st_size
        # With any other size, the file is torn or not an index, so none of its entries can be trusted.
        if size % self.ENTRY.size:
            raise CorruptIndexError(f"{self.file.path}: {size} bytes are not a multiple of {self.ENTRY.size}")
        self._staged = bytearray()
        # Invalidate cached windows, which belong to the previous content.
        self._cuts += 1
        self.entries = self._written_entries(size // self.ENTRY.size)
        self._reload_last()

    def preallocate(self) -> None:
        """Extend the file to its full size. The file is sparse, so the zeros take no disk space."""
        # Keep all existing entries, even if `segment.index.bytes` was reduced.
        os.ftruncate(self.file.fd(), max(self.max_bytes, self.entries * self.ENTRY.size))

    def trim(self) -> None:
        """Truncate the file after its last entry."""
        os.ftruncate(self.file.fd(), self.entries * self.ENTRY.size)

    def trim_free_slots(self) -> None:
        """Trim a loaded file that a crash has left untrimmed.

        One free slot is always kept because its zeros may be an actual entry with timestamp 0.

        Raises:
            OSError: the file cannot be truncated.
        """
        if os.fstat(self.file.fd()).st_size > max(self.entries, 1) * self.ENTRY.size:
            self.trim()

    def clear(self) -> None:
        """Remove all entries, including staged ones, and fill the file with zeros up to its full size."""
        self._staged = bytearray()
        self._truncate_entries(0)

    def commit(self) -> None:
        """Write the staged entries.

        Raises:
            OSError: the write failed. The entries stay staged until `rollback()`.
        """
        staged = self._staged
        if staged:
            size = self.ENTRY.size
            pwrite_all(self.file.fd(), staged, self.entries * size)
            self.entries += len(staged) // size
            self._staged = bytearray()

    @property
    @abstractmethod
    def state(self) -> IndexState:
        """The number of written entries and the last entry, for `rollback`. Valid only while no entries are staged."""

    @abstractmethod
    def rollback(self, state: IndexState) -> None:
        """Restore an earlier `state`. Never raises.

        The file is truncated to remove later entries. If the truncation fails, their bytes remain, but lookups do not
        read them, and they are later overwritten or trimmed.
        """

    def _truncate_quietly(self) -> None:
        with contextlib.suppress(OSError, LogClosedError):
            self._truncate_entries(self.entries)

    def truncate_to(self, offset: int) -> None:
        """Remove all entries with an offset >= `offset`, and restore the file's full size."""
        relative = offset - self.base_offset
        slots = range(self.entries)
        unpack = self.ENTRY.unpack
        self._truncate_entries(
            bisect_left(slots, relative, key=lambda slot: unpack(self._read(slot, 1))[self.OFFSET_FIELD])
        )

    def _truncate_entries(self, entries: int) -> None:
        self._cuts += 1
        fd = self.file.fd()
        os.ftruncate(fd, entries * self.ENTRY.size)
        self.entries = entries
        self.preallocate()
        self._reload_last()

    def _read(self, slot: int, count: int) -> bytes:
        size = self.ENTRY.size
        return os.pread(self.file.fd(), count * size, slot * size)

    def _reload_last(self) -> None:
        self._set_last(self._read(self.entries - 1, 1) if self.entries else b"")

    def _written_entries(self, slots: int) -> int:
        """Return the number of entries before the trailing zeros of an untrimmed file."""
        if slots and any(self._read(slots - 1, 1)):
            return slots
        return bisect_left(range(slots), 1, key=lambda slot: not any(self._read(slot, 1)))

    def _search(self, key: int, guess: int, count_in: Callable[[_Window, int], int]) -> tuple[_Window, int]:
        """Find the last entry with a key <= `key` in a non-empty index.

        Args:
            key: the key to search for.
            guess: the slot whose window is read first. If batches have similar sizes, the guess is usually correct.
                Otherwise the search bisects from there.
            count_in: a function that returns how many entries of a window have a key <= the given key.

        Returns:
            The window that contains the entry, and how many of its entries have a key <= `key`. The count is 0 only at
            the beginning of the file. The window also contains the next entry, unless the entry found is the last one.
        """
        slots = WINDOW_BYTES // self.ENTRY.size
        low, high = 0, (self.entries - 1) // slots
        index = min(max(guess, 0) // slots, high)
        while True:
            window = self._window(index * slots, slots + 1)
            count = count_in(window, key)
            if not count and index > low:
                high = index - 1
            elif count > slots and index < high:
                low = index + 1
            else:
                return window, count
            index = (low + high) // 2

    def _window(self, slot: int, max_count: int) -> _Window:
        """Return the window that begins at a slot. It overlaps the next window by one entry."""
        window: _Window = _cached_window(self, self._cuts, slot, min(max_count, self.entries - slot))
        return window

    def read_window(self, slot: int, count: int) -> _Window:
        """Read `count` written entries from `slot` on and decode them for searching.

        Raises:
            OSError: the file cannot be read.
        """
        return self._decode_window(self._read(slot, count))


@lru_cache(_MAX_CACHED_WINDOWS)
def _cached_window(index: IndexFile[Any], cuts: int, slot: int, count: int) -> Any:  # noqa: ARG001 - see below
    """Return a cached window. A changed `cuts` invalidates it, because only a truncation changes written entries."""
    return index.read_window(slot, count)
