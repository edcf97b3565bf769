"""The half of a log that readers need."""

from collections.abc import Callable
from typing import Any

from minibroker_protocol.steps import Steps, drain
from minibroker_storage.checkpoints import LeaderEpochCheckpoint
from minibroker_storage.errors import OffsetOutOfRangeError
from minibroker_storage.log_slice import LogSlice
from minibroker_storage.lookup import TimestampOffset, search_by_timestamp, search_max_timestamp
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.recovery import LoadedLog
from minibroker_storage.segment import LogSegment
from minibroker_storage.segments import LogSegments
from minibroker_storage.transaction_index import AbortedTxn

AppendListener = Callable[[Any], None]
"""What is called with a log."""


class ReadableLog:
    """What lies between the offsets of a log, and where. It changes nothing; `Log`, which writes, moves the offsets."""

    __slots__ = (
        "_active",
        "_empty",
        "_listeners",
        "_segments",
        "epochs",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "segments",
    )

    def __init__(self, directory: str, loaded: LoadedLog) -> None:
        self._segments = LogSegments(directory, loaded.segments)
        self._active = self._segments.active
        self._empty = LogSlice(self._active.log, 0, 0)
        self._listeners: dict[AppendListener, None] = {}
        #: Segments, ascending; the last one takes the appends.
        self.segments: list[LogSegment] = self._segments.all
        self.producers: ProducerStateManager = loaded.producers
        self.epochs: LeaderEpochCheckpoint = loaded.epochs
        #: The first offset that clients may read.
        self.log_start_offset: int = loaded.log_start_offset
        #: The offset that the next committed record gets.
        self.log_end_offset: int = loaded.log_end_offset
        #: Readers see what lies below.
        self.high_watermark: int = loaded.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided: what read_committed consumers see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self.segments)

    def read(
        self, offset: int, max_bytes: int, *, min_one_batch: bool = True, end_offset: int | None = None
    ) -> LogSlice:
        """Where the bytes from `offset` on are: the start of the batch that holds it, and how many bytes to take.

        At most `max_bytes`, ending with a whole batch where the index knows one (Kafka cuts it), but with
        `min_one_batch` at least the first one whole; never past the high watermark or the batch of `end_offset`; from
        one segment only. A gap is skipped. The bytes are not touched. At the end the slice is empty.
        `OffsetOutOfRangeError` below the log start or above the log end offset. `OSError`.
        """
        limit = self.high_watermark
        if end_offset is not None and end_offset < limit:
            limit = end_offset
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        if offset >= limit:
            return self._empty
        segment = self._active
        position = segment.recent_position(offset)
        first_size = 0
        if position is None:
            number = self._segments.number_of(offset)
            segment = self.segments[number]
            found = segment.translate(offset)
            while found is None:
                number += 1
                if number == len(self.segments):
                    return self._empty
                segment = self.segments[number]
                found = segment.translate(offset)
            _, position, first_size = found
        size = (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - position
        if size > max_bytes:
            if min_one_batch:
                first_size = first_size or segment.header_at(position).size_in_bytes
                size = min(size, max(max_bytes, first_size))
            else:
                size = max_bytes
            if size > first_size:
                # What is cut off here would be sent twice: readers drop a batch that is not whole and ask for it again.
                whole = segment.offset_index.position_at_or_below(position + size) - position
                size = whole if whole > 0 else size
        return LogSlice(segment.log, position, size) if size > 0 else self._empty

    def add_append_listener(self, listener: AppendListener) -> None:
        """Have `listener` called with this log after each commit that moved the high watermark, and when it closes.

        Takes constant time.
        """
        self._listeners[listener] = None

    def remove_append_listener(self, listener: AppendListener) -> None:
        """Stop calling `listener`; one that is not there is no error. Takes constant time, also from a listener."""
        self._listeners.pop(listener, None)

    def call_listeners(self) -> None:
        """Tell whoever waits for appends to look again."""
        for listener in tuple(self._listeners):
            listener(self)

    def find_by_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record with a timestamp (ms) >= `timestamp`; see `lookup.search_by_timestamp`."""
        return drain(self.search_by_timestamp(timestamp))

    def search_by_timestamp(self, timestamp: int) -> Steps[TimestampOffset | None]:
        """`find_by_timestamp` in steps."""
        return search_by_timestamp(self.segments, timestamp, self.log_start_offset)

    def find_max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp; see `lookup.search_max_timestamp`."""
        return drain(self.search_max_timestamp())

    def search_max_timestamp(self) -> Steps[TimestampOffset | None]:
        """`find_max_timestamp` in steps."""
        return search_max_timestamp(self.segments)

    def aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions of which a reader may meet records in `fetch_offset`..`upper_offset` - 1.

        Kafka's `collectAbortedTransactions`; see `upper_bound_of` for the second. `OSError`, `CorruptIndexError`.
        """
        return self._segments.aborted_transactions(fetch_offset, upper_offset)

    def readable_size(self, data: LogSlice, *, end_offset: int | None = None) -> int | None:
        """How many bytes there are from the start of what `read` gave to the end of what may be read.

        None where this end is in a later segment. The slice is one that is not empty. `OSError`.
        """
        limit = self.high_watermark if end_offset is None else min(self.high_watermark, end_offset)
        segment = self._active
        if data.handle is not segment.log:
            number = self._segments.number_holding(data)
            if number is None or self._segments.bases[number + 1] <= limit:
                return None
            segment = self.segments[number]
        return (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - data.position

    def upper_bound_of(self, data: LogSlice) -> int:
        """An offset behind all records in what `read` gave: the next one that an index knows. `OSError`."""
        offset = self._segments.upper_bound_of(data)
        return self.log_end_offset if offset is None else offset
