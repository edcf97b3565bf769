"""Records in flight: acquired batches of offsets, their ranges of equal state, and the changes to them.

A batch (Kafka's `InFlightBatch`) contains the offsets of one acquisition. It has a single range until a part of it
changes separately. Kafka then keeps a state for each offset, but here each sequence of equal states is one range.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from minibroker.coordinators.share_state.state import StateBatch

_MIN_THROTTLED_DELIVERIES: Final = 2


class Limits(NamedTuple):
    """The limits and settings of a share group.

    Attributes:
        lock_ms: The duration of a lock on acquired records.
        deliveries: The maximum number of deliveries of a record.
        locks: The maximum number of offsets in flight per partition.
        renews: Whether members can renew their locks (KIP-1222).
        has_dead_letter_queue: Whether unprocessable records are written to a dead-letter queue (KIP-1191).
        reads_committed: Whether records of open and aborted transactions are withheld from members.
    """

    lock_ms: int
    deliveries: int
    locks: int
    renews: bool = True
    has_dead_letter_queue: bool = False
    reads_committed: bool = False


class Acquired(NamedTuple):
    """An inclusive range of offsets acquired by a member.

    Attributes:
        deliveries: The number of deliveries so far, 1 for the first delivery.
    """

    first: int
    last: int
    deliveries: int


class Span(NamedTuple):
    """The inclusive range of offsets of one batch of the log."""

    first: int
    last: int


class AcquisitionRequest(NamedTuple):
    """A member's request for records.

    Attributes:
        max_records: The maximum number of records. It may be exceeded to complete a batch, unless `is_strict` is true.
        batch_size: The preferred size of acquired batches. Members acknowledge a batch as a whole.
        is_strict: Whether `max_records` is never exceeded (KIP-1206).
    """

    member: str
    max_records: int
    batch_size: int
    is_strict: bool


def throttling_threshold(delivery_limit: int) -> int:
    """Return the number of deliveries after which a record may be bad, and is acquired with only a few others."""
    return max(_MIN_THROTTLED_DELIVERIES, -(-delivery_limit // 2))


def end_of_batch(offset: int, spans: Iterable[Span]) -> int:
    """Return the last offset of the log's batch that contains an offset, or the offset itself if no batch does."""
    return next((span.last for span in spans if span.first <= offset <= span.last), offset)


def split_into_ranges(first: int, last: int, spans: Iterable[Span], size: int) -> list[Acquired]:
    """Split newly acquired offsets at batch boundaries. Every range but the last has at least `size` offsets."""
    acquired: list[Acquired] = []
    if last - first + 1 > size:
        for span in spans:
            if span.first > last:
                break
            if span.first - first >= size:
                acquired.append(Acquired(first, span.first - 1, 1))
                first = span.first
    acquired.append(Acquired(first, last, 1))
    return acquired


def exclude_spans(acquired: Sequence[Acquired], spans: Sequence[Span]) -> list[Acquired]:
    """Return the acquired ranges without the offsets covered by `spans`. Both lists are sorted."""
    remaining: list[Acquired] = []
    first_span = 0
    for acquired_range in acquired:
        first = acquired_range.first
        while first_span < len(spans) and spans[first_span].last < first:
            first_span += 1
        span_index = first_span
        while span_index < len(spans) and spans[span_index].first <= acquired_range.last:
            if first < spans[span_index].first:
                remaining.append(acquired_range._replace(first=first, last=spans[span_index].first - 1))
            first = spans[span_index].last + 1
            span_index += 1
        if first <= acquired_range.last:
            remaining.append(acquired_range._replace(first=first))
    return remaining


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


REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."
"""The reasons for writing to a dead-letter queue, as Kafka words them (`ShareGroupDLQManager`)."""
REJECT: Final = 3
RENEW: Final = 4
STATES: Final = {
    0: RecordState.ARCHIVED,  # Type 0 (gap) means that the record is missing in the log.
    1: RecordState.ACKNOWLEDGED,
    2: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
"""The new record state for each type of acknowledgement except RENEW."""


class Acknowledgement(NamedTuple):
    """An acknowledgement of an inclusive range of offsets.

    Attributes:
        types: One type for all offsets, or one type for each offset.
    """

    first: int
    last: int
    types: Sequence[int]


class DeadRecords(NamedTuple):
    """An inclusive range of offsets of unprocessable records, for the share group's dead-letter queue (KIP-1191).

    Attributes:
        deliveries: The number of acquisitions.
        reason: REJECTED or EXCEEDED.
    """

    first: int
    last: int
    deliveries: int
    reason: str


class Write(NamedTuple):
    """The state to write; see `ShareState`."""

    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Changes:
    """Changes to a share-partition that take effect together.

    Attributes:
        states: The changed batches, to be written.
        dead: The records to send to the group's dead-letter queue after that write.
    """

    __slots__ = ("_before", "dead", "states")

    def __init__(self) -> None:
        self.states: list[StateBatch] = []
        self.dead: list[DeadRecords] = []
        self._before: dict[InFlightBatch, list[RecordRange]] = {}

    def note(self, batch: InFlightBatch) -> None:
        """Save the ranges of a batch that is about to change."""
        if batch not in self._before:
            self._before[batch] = [records.copy() for records in batch.ranges]

    def add(self, records: RecordRange, reason: str) -> None:
        """Add the new state of a range. `reason` is recorded if that state leads to the dead-letter queue."""
        self.states.append(StateBatch(records.first, records.last, records.deliveries, int(records.state)))
        if records.state is RecordState.ARCHIVING:
            self.dead.append(DeadRecords(records.first, records.last, records.deliveries, reason))

    def roll_back(self) -> None:
        """Restore the saved ranges of all batches."""
        for batch, ranges in self._before.items():
            batch.ranges = ranges
            batch.is_split = batch.is_split and len(ranges) > 1


def find_dead_records(ranges: Iterable[RecordRange], most_deliveries: int) -> list[DeadRecords]:
    """Return the records that were on their way to the dead-letter queue when the state was saved."""
    return [
        DeadRecords(
            records.first,
            records.last,
            records.deliveries,
            EXCEEDED if records.deliveries >= most_deliveries else REJECTED,
        )
        for records in ranges
        if records.state is RecordState.ARCHIVING
    ]


def split_into_runs(acknowledged: Acknowledgement) -> list[tuple[int, int, int]]:
    """Split an acknowledgement into runs of one type, each as (first offset, last offset, type)."""
    if len(acknowledged.types) == 1:
        return [(acknowledged.first, acknowledged.last, acknowledged.types[0])]
    typed_ranges: list[tuple[int, int, int]] = []
    offset = acknowledged.first
    for kind, run in groupby(acknowledged.types):
        count = sum(1 for _ in run)
        typed_ranges.append((offset, offset + count - 1, kind))
        offset += count
    return typed_ranges
