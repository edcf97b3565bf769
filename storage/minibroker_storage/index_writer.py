"""Which batches get an index entry: one in each `index.interval.bytes` (Kafka's `LogSegment.append`).

Whether an entry is true after a crash is another matter: see the crash rule of `segment.LogSegment`.
"""

from typing import Generic, Protocol, TypeVar

from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex


class TakesOffsets(Protocol):
    """An offset index that is being written."""

    def stage(self, offset: int, position: int) -> None:
        """Take an entry: the last offset of the batch that starts at this byte of the log file."""


class TakesTimes(Protocol):
    """A time index that is being written."""

    def maybe_stage(self, timestamp: int, offset: int) -> None:
        """Take an entry if its timestamp is larger than the last one."""


_Offsets = TypeVar("_Offsets", bound=TakesOffsets)
_Times = TypeVar("_Times", bound=TakesTimes)


class IndexWriter(Generic[_Offsets, _Times]):
    """The end of a segment that is being written, and the index entries of what is put there.

    Attributes:
        base_offset: of the segment.
        end: bytes of the log file so far.
        max_timestamp: the largest timestamp (ms) so far.
        offset_of_max_timestamp: the last offset of the first batch that has it.
        index_interval_bytes: `index.interval.bytes`.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "base_offset",
        "end",
        "index_interval_bytes",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "time_index",
    )

    def __init__(
        self, base_offset: int, offset_index: _Offsets, time_index: _Times, *, index_interval_bytes: int, end: int = 0
    ) -> None:
        self.base_offset = base_offset
        self.offset_index = offset_index
        self.time_index = time_index
        self.index_interval_bytes = index_interval_bytes
        self.end = end
        self.max_timestamp: int = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self._bytes_since_index_entry = 0

    @property
    def index_due_after(self) -> int:
        """The next batch that begins behind this byte of the log file gets an index entry."""
        return self.end - self._bytes_since_index_entry + self.index_interval_bytes

    def note(self, size: int, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int) -> None:
        """Count a batch of `size` bytes at the end, by the rule of Kafka's `LogSegment.append`.

        Once more than `index.interval.bytes` lie behind the last index entry, the batch gets one: its last offset and
        its position; the time index then gets the largest timestamp so far, with its offset, which of a v2 batch is the
        last one. The first batch never gets one. A message set counts as one batch, by the offset of its first message.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = offset_of_max_timestamp
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self._add_index_entry(last_offset)
        self._bytes_since_index_entry += size
        self.end += size

    def _add_index_entry(self, last_offset: int) -> None:
        self.offset_index.stage(last_offset, self.end)
        self.time_index.maybe_stage(self.max_timestamp, self.offset_of_max_timestamp)
        self._bytes_since_index_entry = 0

    def pass_over(self, size: int) -> None:
        """Move the end behind batches that get no index entries, or have theirs."""
        self._bytes_since_index_entry += size
        self.end += size


class OffsetEntries:
    """The entries of an offset index in memory. A full one takes no more, which makes it only sparser."""

    __slots__ = ("_base_offset", "_max_size", "data")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self._base_offset = base_offset
        self._max_size = max_bytes // OffsetIndex.ENTRY.size * OffsetIndex.ENTRY.size
        self.data = bytearray()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return len(self.data) >= self._max_size

    def stage(self, offset: int, position: int) -> None:
        """See `TakesOffsets`."""
        if not self.is_full:
            self.data += OffsetIndex.ENTRY.pack(offset - self._base_offset, position)


class TimeEntries:
    """The entries of a time index in memory. One slot is kept for `close`."""

    __slots__ = ("_base_offset", "_last_timestamp", "_max_size", "data")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self._base_offset = base_offset
        self._max_size = max_bytes // TimeIndex.ENTRY.size * TimeIndex.ENTRY.size
        self._last_timestamp: int = NO_TIMESTAMP
        self.data = bytearray()

    @property
    def is_full(self) -> bool:
        """Whether there is room for the last entry alone, or for none."""
        return len(self.data) >= self._max_size - TimeIndex.ENTRY.size

    def maybe_stage(self, timestamp: int, offset: int) -> None:
        """See `TakesTimes`."""
        if not self.is_full:
            self._add(timestamp, offset)

    def close(self, timestamp: int, offset: int) -> None:
        """Take the last entry of the segment, if its timestamp is larger than the one before."""
        if len(self.data) < self._max_size:
            self._add(timestamp, offset)

    def _add(self, timestamp: int, offset: int) -> None:
        if timestamp > self._last_timestamp:
            self.data += TimeIndex.ENTRY.pack(timestamp, offset - self._base_offset)
            self._last_timestamp = timestamp


class BufferedIndexWriter(IndexWriter[OffsetEntries, TimeEntries]):
    """The same for a segment whose indexes are written at once, when it is complete."""

    def __init__(self, base_offset: int, *, index_interval_bytes: int, segment_index_bytes: int) -> None:
        offsets, times = OffsetEntries(base_offset, segment_index_bytes), TimeEntries(base_offset, segment_index_bytes)
        super().__init__(base_offset, offsets, times, index_interval_bytes=index_interval_bytes)

    @property
    def is_full(self) -> bool:
        """Whether an index takes no more entries; of the time index one slot is kept for the end."""
        return self.offset_index.is_full or self.time_index.is_full

    def close_indexes(self) -> None:
        """Give the time index the largest timestamp; both are complete then."""
        self.time_index.close(self.max_timestamp, self.offset_of_max_timestamp)
