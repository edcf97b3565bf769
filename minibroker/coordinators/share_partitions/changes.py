"""Acknowledgements of a member, and changes of batches, which can be undone."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from minibroker.coordinators.share_partitions.in_flight import InFlightBatch, Piece, RecordState
from minibroker.coordinators.share_state.state import StateBatch
from minibroker_protocol.error_codes import ErrorCode

REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."
"""The reasons for a dead-letter queue, in Kafka's words (`ShareGroupDLQManager`)."""
REJECT: Final = 3
RENEW: Final = 4
STATES: Final = {
    0: RecordState.ARCHIVED,  # a gap: there is no such record
    1: RecordState.ACKNOWLEDGED,
    2: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
"""The state that each type of acknowledgement but RENEW leads to."""


class Acknowledgement(NamedTuple):
    """Offsets that a member acknowledges, the last one included; `types` has one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class DeadRecords(NamedTuple):
    """Unprocessable offsets on their way to the dead-letter queue of their share group (KIP-1191), `last` included.

    Attributes:
        deliveries: how often they were acquired.
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


class RefusedError(Exception):
    """An acknowledgement that changes nothing. `code` is the error that the member gets."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


class Changes:
    """Changes of a share-partition that count together.

    Attributes:
        states: to be written.
        dead: records that go to the group's dead-letter queue then.
    """

    __slots__ = ("_before", "dead", "states")

    def __init__(self) -> None:
        self.states: list[StateBatch] = []
        self.dead: list[DeadRecords] = []
        self._before: dict[InFlightBatch, list[Piece]] = {}

    def note(self, batch: InFlightBatch) -> None:
        """Remember the pieces of a batch, which is going to change."""
        if batch not in self._before:
            self._before[batch] = [piece.copy() for piece in batch.pieces]

    def add(self, piece: Piece, reason: str) -> None:
        """A piece has another state; `reason` counts where that leads to the dead-letter queue."""
        self.states.append(StateBatch(piece.first, piece.last, piece.deliveries, int(piece.state)))
        if piece.state is RecordState.ARCHIVING:
            self.dead.append(DeadRecords(piece.first, piece.last, piece.deliveries, reason))

    def roll_back(self) -> None:
        """Give batches the pieces that they had."""
        for batch, pieces in self._before.items():
            batch.pieces = pieces
            batch.is_split = batch.is_split and len(pieces) > 1


def dead_of(pieces: Iterable[Piece], most_deliveries: int) -> list[DeadRecords]:
    """The records of a state that were on their way to the dead-letter queue when it was written."""
    return [
        DeadRecords(
            each.first, each.last, each.deliveries, EXCEEDED if each.deliveries >= most_deliveries else REJECTED
        )
        for each in pieces
        if each.state is RecordState.ARCHIVING
    ]


def runs(acknowledged: Acknowledgement) -> list[tuple[int, int, int]]:
    """Return the first and last offsets of equal types, and the type."""
    if len(acknowledged.types) == 1:
        return [(acknowledged.first, acknowledged.last, acknowledged.types[0])]
    found: list[tuple[int, int, int]] = []
    offset = acknowledged.first
    for kind, run in groupby(acknowledged.types):
        count = sum(1 for _ in run)
        found.append((offset, offset + count - 1, kind))
        offset += count
    return found
