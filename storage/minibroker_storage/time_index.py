"""The index that maps timestamps to offsets (Kafka's `TimeIndex`)."""

from bisect import bisect_right
from itertools import pairwise
from struct import Struct
from typing import ClassVar, NamedTuple

from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.index_file import WINDOW_BYTES, IndexFile, IndexState


class TimeIndexEntry(NamedTuple):
    """The largest timestamp so far (in ms), and the last offset of the batch that contains it."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile[bytes]):
    """A sparse map from timestamps to offsets (Kafka's `TimeIndex`).

    Each entry has 12 bytes, big-endian: timestamp int64 (ms), then relative offset int32. Every record with a
    timestamp larger than that of an entry comes after the entry's offset. Timestamps ascend strictly; offsets
    ascend. When the offset index gets an entry, so does the time index, if the largest timestamp has grown. The
    same happens at a roll or close, for which one slot is reserved. See `IndexFile` for crash safety.
    """

    __slots__ = ("last_offset", "last_timestamp")

    ENTRY: ClassVar[Struct] = Struct(">qi")
    OFFSET_FIELD: ClassVar[int] = 1
    RESERVED_SLOTS: ClassVar[int] = 1
    """The slot of the entry that is added by a roll or close."""

    last_timestamp: int
    last_offset: int

    def maybe_stage(self, timestamp: int, offset: int) -> None:
        """Stage an entry for `commit()` if its timestamp is larger than that of the last entry."""
        if timestamp > self.last_timestamp and offset >= self.last_offset:
            self._staged.extend(self.ENTRY.pack(timestamp, offset - self.base_offset))
            self.last_timestamp = timestamp
            self.last_offset = offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Stage and commit an entry, which may use the slot reserved for roll and close.

        Raises:
            OSError: the write failed.
        """
        self.maybe_stage(timestamp, offset)
        self.commit()

    def lookup(self, timestamp: int) -> TimeIndexEntry:
        """Return the last written entry with a timestamp <= `timestamp`, or (-1, base offset) if no entry matches."""
        if self.entries:
            window, count = self._search(timestamp, self.entries // 2, self._count_at_or_below)
            if count:
                return self._decode_entry(window, (count - 1) * self.ENTRY.size)
        return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)

    def _decode_entry(self, entries: bytes, at: int = 0) -> TimeIndexEntry:
        timestamp, relative = self.ENTRY.unpack_from(entries, at)
        return TimeIndexEntry(timestamp, self.base_offset + relative)

    def drop_torn_entry(self) -> None:
        """Drop the last entry if it is out of order because its write was interrupted.

        Raises:
            OSError: the file cannot be read or truncated.
        """
        if self.entries > 1:
            before = self.entry(self.entries - 2)
            if self.last_timestamp <= before.timestamp or self.last_offset < before.offset:
                self._truncate_entries(self.entries - 1)

    def check_end(self) -> None:
        """Check that the newest entries are in ascending order, reading at most one window of them.

        Raises:
            CorruptIndexError: the entries are not in ascending order.
            OSError: the file cannot be read.
        """
        count = min(self.entries, WINDOW_BYTES // self.ENTRY.size)
        entries = list(self.ENTRY.iter_unpack(self._read(self.entries - count, count)))
        for (timestamp, offset), (next_timestamp, next_offset) in pairwise(entries):
            if timestamp >= next_timestamp or offset > next_offset:
                raise CorruptIndexError(f"{self.file.path}: {next_timestamp} follows {timestamp}")

    def entry(self, slot: int) -> TimeIndexEntry:
        """Return the written entry in `slot`, which must be in 0..`entries` - 1."""
        return self._decode_entry(self._read(slot, 1))

    def sanity_check(self, log_size: int, next_base_offset: int | None) -> None:
        """Check that the last timestamp is not below the first one, and that the last offset is in this segment.

        Raises:
            CorruptIndexError: one of these checks failed.
        """
        if not self.entries:
            return
        if self.last_timestamp < self.entry(0).timestamp:
            raise CorruptIndexError(f"{self.file.path}: the last timestamp is below the first")
        if self.last_offset < self.base_offset or (
            next_base_offset is not None and self.last_offset >= next_base_offset
        ):
            raise CorruptIndexError(f"{self.file.path}: last offset {self.last_offset} is outside the segment")
        if not log_size:
            raise CorruptIndexError(f"{self.file.path}: entries for an empty log")

    @property
    def state(self) -> IndexState:
        """The number of entries, and the timestamp and offset of the last one."""
        return self.entries, self.last_timestamp, self.last_offset

    def rollback(self, state: IndexState) -> None:
        """Restore an earlier `state` (see `IndexFile.rollback`)."""
        self._staged = bytearray()
        self.entries, self.last_timestamp, self.last_offset = state
        self._truncate_quietly()

    def _set_last(self, entry: bytes) -> None:
        self.last_timestamp, relative = self.ENTRY.unpack(entry) if entry else (NO_TIMESTAMP, 0)
        self.last_offset = self.base_offset + relative

    @staticmethod
    def _decode_window(entries: bytes) -> bytes:
        return entries

    def _count_at_or_below(self, window: bytes, key: int) -> int:
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        if unpack(window)[0] > key:
            return 0
        if unpack(window, len(window) - size)[0] <= key:
            return len(window) // size
        return bisect_right(range(len(window) // size), key, key=lambda slot: unpack(window, slot * size)[0])
