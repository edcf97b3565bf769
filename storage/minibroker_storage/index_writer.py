"""Chooses the batches that get index entries: one per `index.interval.bytes` (Kafka's `LogSegment.append`).

`segment.LogSegment` explains which entries can be trusted after a crash.
"""

from abc import ABC, abstractmethod

from minibroker_protocol.records.header import NO_TIMESTAMP
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex


class IndexWriter(ABC):
    """Decides when to write an index entry of a segment that is being written, and tracks the segment's end.

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
        "offset_of_max_timestamp",
    )

    def __init__(self, base_offset: int, *, index_interval_bytes: int, end: int = 0) -> None:
        self.base_offset = base_offset
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

        If more than `index.interval.bytes` of batches follow the last index entry, this batch gets an entry with its
        last offset and position. The time index then gets the largest timestamp so far and its offset, which for a v2
        batch is the last offset. The first batch never gets an entry. A message set counts as one batch, with the
        offset of its first message.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = offset_of_max_timestamp
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self._add_index_entry(last_offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.end += size

    @abstractmethod
    def _add_index_entry(self, last_offset: int) -> None:
        """Add an entry to both indexes for the batch at `end`, which has this last offset."""

    def skip_batches(self, size: int) -> None:
        """Advance the end past batches that need no index entries or already have them."""
        self._bytes_since_index_entry += size
        self.end += size


class BufferedIndexWriter(IndexWriter):
    """An index writer that buffers the index entries in memory until the segment is complete.

    A full index ignores further entries; this only makes the index sparser.

    Attributes:
        offset_entries: the entries of the offset index.
        time_entries: the entries of the time index. One slot is reserved for the entry added by `close_indexes`.
    """

    def __init__(self, base_offset: int, *, index_interval_bytes: int, segment_index_bytes: int) -> None:
        super().__init__(base_offset, index_interval_bytes=index_interval_bytes)
        self.offset_entries, self.time_entries = bytearray(), bytearray()
        self._max_offset_bytes = OffsetIndex.round_down(segment_index_bytes)
        self._max_time_bytes = TimeIndex.round_down(segment_index_bytes)
        self._last_timestamp: int = NO_TIMESTAMP

    @property
    def is_full(self) -> bool:
        """Whether one of the indexes is full, except for the slot reserved in the time index."""
        return (
            len(self.offset_entries) >= self._max_offset_bytes
            or len(self.time_entries) >= self._max_time_bytes - TimeIndex.ENTRY.size
        )

    def _add_index_entry(self, last_offset: int) -> None:
        if len(self.offset_entries) < self._max_offset_bytes:
            self.offset_entries += OffsetIndex.ENTRY.pack(last_offset - self.base_offset, self.end)
        self._add_time_entry(self._max_time_bytes - TimeIndex.ENTRY.size)

    def _add_time_entry(self, max_bytes: int) -> None:
        """Add an entry if its timestamp is larger than that of the previous entry and the index is not full."""
        if len(self.time_entries) < max_bytes and self.max_timestamp > self._last_timestamp:
            self.time_entries += TimeIndex.ENTRY.pack(
                self.max_timestamp, self.offset_of_max_timestamp - self.base_offset
            )
            self._last_timestamp = self.max_timestamp

    def close_indexes(self) -> None:
        """Complete the indexes by adding the largest timestamp to the time index."""
        self._add_time_entry(self._max_time_bytes)
