"""Chooses the batches that get index entries: one per `index.interval.bytes` (Kafka's `LogSegment.append`).

`segment.LogSegment` explains which entries can be trusted after a crash.
"""

from typing import Generic, TypeVar

from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex


class OffsetEntries:
    """The entries of an offset index in memory. A full index ignores further entries, which only makes it sparser."""

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
        """Add an entry, a batch's last offset and its position in the log file, unless the index is full."""
        if not self.is_full:
            self.data += OffsetIndex.ENTRY.pack(offset - self._base_offset, position)


class TimeEntries:
    """The entries of a time index in memory. One slot is reserved for the entry added by `close`."""

    __slots__ = ("_base_offset", "_last_timestamp", "_max_size", "data")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self._base_offset = base_offset
        self._max_size = max_bytes // TimeIndex.ENTRY.size * TimeIndex.ENTRY.size
        self._last_timestamp: int = NO_TIMESTAMP
        self.data = bytearray()

    @property
    def is_full(self) -> bool:
        """Whether there is no free slot other than the one reserved for the last entry."""
        return len(self.data) >= self._max_size - TimeIndex.ENTRY.size

    def maybe_stage(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than that of the previous entry and the index is not full."""
        if not self.is_full:
            self._add(timestamp, offset)

    def close(self, timestamp: int, offset: int) -> None:
        """Add the segment's last entry if its timestamp is larger than that of the previous entry."""
        if len(self.data) < self._max_size:
            self._add(timestamp, offset)

    def _add(self, timestamp: int, offset: int) -> None:
        if timestamp > self._last_timestamp:
            self.data += TimeIndex.ENTRY.pack(timestamp, offset - self._base_offset)
            self._last_timestamp = timestamp


_Offsets = TypeVar("_Offsets", bound=OffsetIndex | OffsetEntries)
_Times = TypeVar("_Times", bound=TimeIndex | TimeEntries)


class IndexWriter(Generic[_Offsets, _Times]):
    """Writes the index entries of the segment that is being written, and tracks the segment's end.

    Attributes:
        base_offset: base offset of the segment.
        end: size of the log file in bytes, including staged batches.
        max_timestamp: the largest timestamp so far, in ms.
        offset_of_max_timestamp: the last offset of the first batch with that timestamp.
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
        """The position after which the next batch in the log file gets an index entry."""
        return self.end - self._bytes_since_index_entry + self.index_interval_bytes

    def add_batch(self, size: int, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int) -> None:
        """Add a batch of `size` bytes at the end, as in Kafka's `LogSegment.append`.

        If more than `index.interval.bytes` follow the last index entry, this batch gets one with its last offset and
        position. The time index then gets the largest timestamp so far and its offset, which for a v2 batch is the last
        offset. The first batch never gets an entry. A message set counts as one batch, with the offset of its first
        message.
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

    def skip_batches(self, size: int) -> None:
        """Advance the end past batches that need no index entries or already have them."""
        self._bytes_since_index_entry += size
        self.end += size


class BufferedIndexWriter(IndexWriter[OffsetEntries, TimeEntries]):
    """An index writer that buffers the index entries in memory until the segment is complete."""

    def __init__(self, base_offset: int, *, index_interval_bytes: int, segment_index_bytes: int) -> None:
        offsets, times = OffsetEntries(base_offset, segment_index_bytes), TimeEntries(base_offset, segment_index_bytes)
        super().__init__(base_offset, offsets, times, index_interval_bytes=index_interval_bytes)

    @property
    def is_full(self) -> bool:
        """Whether one of the indexes is full, except for the slot reserved in the time index."""
        return self.offset_index.is_full or self.time_index.is_full

    def close_indexes(self) -> None:
        """Complete the indexes by adding the largest timestamp to the time index."""
        self.time_index.close(self.max_timestamp, self.offset_of_max_timestamp)
