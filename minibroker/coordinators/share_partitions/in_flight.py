"""Records in flight: batches of offsets, divided into ranges of equal state (Kafka's `InFlightBatch`).

A batch contains the offsets of one acquisition. It has a single range until a part of it changes separately. Kafka then
keeps a state for each offset, but here each sequence of equal states is one range.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Final

NO_MEMBER: Final = ""
"""The member id of a range that no member has acquired."""
_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")
_RECORD_FIELDS: Final = attrgetter("state", "deliveries", "member", "deadline_ms")
"""The fields of a range that all its records share."""


class RecordState(IntEnum):
    """The states of a record (Kafka's `RecordState`), numbered as in the share coordinator's records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is finished. A record on its way to a dead-letter queue is not finished yet."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


@dataclass(slots=True, eq=False)
class RecordRange:
    """A range of offsets in one batch whose records are in the same state. The last offset is included.

    Attributes:
        deliveries: The number of acquisitions.
        member: The id of the member that has acquired the range, or NO_MEMBER.
        deadline_ms: The end of the member's lock, in monotonic time.
    """

    first: int
    last: int
    state: RecordState
    deliveries: int = 0
    member: str = NO_MEMBER
    deadline_ms: float | None = None

    def put(self, state: RecordState, member: str = NO_MEMBER, deadline_ms: float | None = None) -> None:
        """Set the state, the member, and the time at which the member's lock expires."""
        self.state = state
        self.member = member
        self.deadline_ms = deadline_ms

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def copy(self) -> "RecordRange":
        """Return an independent copy."""
        return RecordRange(self.first, self.last, self.state, self.deliveries, self.member, self.deadline_ms)

    def split_at(self, offset: int) -> "RecordRange":
        """Split off the offsets from `offset` on, and return them as a new range."""
        remainder = self.copy()
        remainder.first = offset
        self.last = offset - 1
        return remainder


class InFlightBatch:
    """Offsets that were acquired together, or loaded from one batch of a saved state.

    Attributes:
        first, last: The first and the last offset.
        ranges: All ranges, in order.
        is_split: Whether each record has its own state from now on.
    """

    __slots__ = ("first", "is_split", "last", "ranges")

    def __init__(self, records: RecordRange) -> None:
        self.first = records.first
        self.last = records.last
        self.ranges = [records]
        self.is_split = False

    @property
    def size(self) -> int:
        """The number of offsets in the batch."""
        return self.last - self.first + 1

    def is_throttled(self, first: int, last: int, deliveries: int) -> bool:
        """Return whether an offset from `first` to `last` is available after at least `deliveries` deliveries."""
        return any(
            record_range.state is RecordState.AVAILABLE
            and record_range.deliveries >= deliveries
            and (not self.is_split or (record_range.first <= last and record_range.last >= first))
            for record_range in self.ranges
        )

    def iterate_ranges(self, first: int, last: int) -> Iterator[RecordRange]:
        """Yield the ranges between two offsets. Ranges that extend beyond these offsets are split first."""
        ranges = self.ranges
        index = bisect_left(ranges, first, key=_LAST) if first <= last else len(ranges)
        while index < len(ranges) and ranges[index].first <= last:
            records = ranges[index]
            index += 1
            if records.first < first:
                records = records.split_at(first)
                ranges.insert(index, records)
                index += 1
                self.is_split = True
            if records.last > last:
                ranges.insert(index, records.split_at(last + 1))
                self.is_split = True
            yield records

    def range_at(self, offset: int) -> RecordRange:
        """Return the range that contains an offset, or the last range."""
        return next((records for records in self.ranges if records.last >= offset), self.ranges[-1])

    def join(self) -> None:
        """Merge neighboring ranges that differ only in their offsets."""
        merged = self.ranges[:1]
        for records in self.ranges[1:]:
            if _RECORD_FIELDS(merged[-1]) == _RECORD_FIELDS(records):
                merged[-1].last = records.last
            else:
                merged.append(records)
        self.ranges = merged


class Batches(list[InFlightBatch]):
    """The batches in flight, in order and without overlaps."""

    __slots__ = ()

    def add(self, records: RecordRange) -> None:
        """Add a batch with a single range."""
        batch = InFlightBatch(records)
        # This is nearly always true, and a search takes five times as long.
        if not self or self[-1].first < records.first:
            self.append(batch)
        else:
            insort(self, batch, key=_FIRST)

    @property
    def ranges(self) -> Iterator[RecordRange]:
        """All ranges, in order."""
        return (records for batch in self for records in batch.ranges)

    @property
    def first_deadline_ms(self) -> float | None:
        """The time at which the first lock expires, or None if nothing is locked."""
        deadlines_ms = (records.deadline_ms for records in self.ranges if records.deadline_ms is not None)
        return min(deadlines_ms, default=None)

    @property
    def first_available(self) -> RecordRange | None:
        """The first range that a member can acquire, or None."""
        return next((records for records in self.ranges if records.state is RecordState.AVAILABLE), None)

    @property
    def last_finished_range(self) -> RecordRange | None:
        """The last finished range before the first unfinished range, or None."""
        last_finished: RecordRange | None = None
        for records in self.ranges:
            if not records.state.is_final:
                break
            last_finished = records
        return last_finished

    def count_finished(self, start: int) -> int:
        """Return the number of finished offsets from `start` on."""
        finished = (records for records in self.ranges if records.state.is_final and records.last >= start)
        return sum(records.last - max(records.first, start) + 1 for records in finished)

    def index_of(self, offset: int) -> int:
        """Return the index of the last batch that begins at or before an offset, or -1."""
        return bisect_right(self, offset, key=_FIRST) - 1

    def find_floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset, or None."""
        index = self.index_of(offset)
        return None if index < 0 else self[index]

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that may have offsets from `first` to `last`, both included.

        The first batch may end before `first`.
        """
        return self[max(self.index_of(first), 0) : self.index_of(last) + 1]

    def find_between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin between two offsets, both included."""
        return [batch for batch in self.between(first, last) if batch.first >= first]
