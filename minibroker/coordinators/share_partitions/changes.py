"""A member's acknowledgements, and the resulting changes to batches. Changes can be rolled back."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from minibroker.coordinators.share_partitions.in_flight import InFlightBatch, RecordRange, RecordState
from minibroker.coordinators.share_state.state import StateBatch

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
