"""Records in flight: batches of offsets, each cut into pieces where its records differ (Kafka's `InFlightBatch`).

A batch is what was acquired at once. It is one piece until a part of it is treated apart; Kafka then has a state for
each offset, and here each run of equal ones is a piece.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from enum import IntEnum
from operator import attrgetter
from typing import Final

NO_MEMBER: Final = ""
"""The member of a piece that no member has acquired."""
_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class RecordState(IntEnum):
    """The states of a record, by their numbers in the share coordinator's records (`RecordState`)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is done with; one that is on its way to a dead-letter queue is not yet."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class Piece:
    """Offsets of one batch in the same state, the last one included.

    Attributes:
        deliveries: how often they were acquired.
        member: the id of the member that has acquired them, or NO_MEMBER.
        deadline_ms: when its lock ends, on the clock's monotonic time.
    """

    __slots__ = ("deadline_ms", "deliveries", "first", "last", "member", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        deliveries: int = 0,
        member: str = NO_MEMBER,
        deadline_ms: float | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        self.member = member
        self.deadline_ms = deadline_ms

    def put(self, state: RecordState, member: str = NO_MEMBER, deadline_ms: float | None = None) -> None:
        """Take another state."""
        self.state = state
        self.member = member
        self.deadline_ms = deadline_ms

    @property
    def size(self) -> int:
        """The number of its offsets."""
        return self.last - self.first + 1

    def is_like(self, other: "Piece") -> bool:
        """Whether only the offsets of two pieces differ."""
        return (self.state, self.deliveries, self.member, self.deadline_ms) == (
            other.state,
            other.deliveries,
            other.member,
            other.deadline_ms,
        )

    def copy(self) -> "Piece":
        """A piece that stays as it is."""
        return Piece(self.first, self.last, self.state, self.deliveries, self.member, self.deadline_ms)

    def cut(self, offset: int) -> "Piece":
        """Give up the offsets from `offset` on, and return them as a piece of their own."""
        rest = self.copy()
        rest.first = offset
        self.last = offset - 1
        return rest


class InFlightBatch:
    """Offsets that were acquired, or loaded, at once.

    Attributes:
        first, last: its offsets, both included.
        pieces: all of them, in order.
        is_split: its records are treated one by one from now on.
    """

    __slots__ = ("first", "is_split", "last", "pieces")

    def __init__(self, piece: Piece) -> None:
        self.first = piece.first
        self.last = piece.last
        self.pieces = [piece]
        self.is_split = False

    @property
    def size(self) -> int:
        """The number of its offsets."""
        return self.last - self.first + 1

    def is_within(self, first: int, last: int) -> bool:
        """Whether all its offsets lie between two others."""
        return first <= self.first and self.last <= last

    def is_throttled(self, first: int, last: int, deliveries: int) -> bool:
        """Whether any of some offsets is available and was delivered so often."""
        return any(
            piece.state is RecordState.AVAILABLE
            and piece.deliveries >= deliveries
            and (not self.is_split or (piece.first <= last and piece.last >= first))
            for piece in self.pieces
        )

    def within(self, first: int, last: int) -> Iterator[Piece]:
        """The pieces of some of its offsets, cut so that they have no others."""
        pieces = self.pieces
        index = bisect_left(pieces, first, key=_LAST) if first <= last else len(pieces)
        while index < len(pieces) and pieces[index].first <= last:
            piece = pieces[index]
            index += 1
            if piece.first < first:
                piece = piece.cut(first)
                pieces.insert(index, piece)
                index += 1
                self.is_split = True
            if piece.last > last:
                pieces.insert(index, piece.cut(last + 1))
                self.is_split = True
            yield piece

    def piece_at(self, offset: int) -> Piece:
        """The piece that has an offset, or else the last one."""
        return next((piece for piece in self.pieces if piece.last >= offset), self.pieces[-1])

    def join(self) -> None:
        """Make one piece of each run of equal ones."""
        joined = self.pieces[:1]
        for piece in self.pieces[1:]:
            if joined[-1].is_like(piece):
                joined[-1].last = piece.last
            else:
                joined.append(piece)
        self.pieces = joined


class Batches(list[InFlightBatch]):
    """The batches in flight, in order; no two have an offset in common."""

    __slots__ = ()

    def add(self, piece: Piece) -> None:
        """Add a batch of one piece."""
        batch = InFlightBatch(piece)
        if not self or self[-1].first < piece.first:  # nearly always: a search costs five times as much
            self.append(batch)
        else:
            insort(self, batch, key=_FIRST)

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces, in order."""
        return (piece for batch in self for piece in batch.pieces)

    @property
    def first_deadline_ms(self) -> float | None:
        """The end of the first lock to end; None if nothing is locked."""
        deadlines_ms = (each.deadline_ms for each in self.pieces if each.deadline_ms is not None)
        return min(deadlines_ms, default=None)

    @property
    def first_available(self) -> Piece | None:
        """The first piece that a member could get."""
        return next((piece for piece in self.pieces if piece.state is RecordState.AVAILABLE), None)

    @property
    def last_done(self) -> Piece | None:
        """The last piece of those at the beginning that are done with."""
        done: Piece | None = None
        for piece in self.pieces:
            if not piece.state.is_final:
                break
            done = piece
        return done

    def done_from(self, start: int) -> int:
        """The number of offsets from one on that are done with."""
        done = (piece for piece in self.pieces if piece.state.is_final and piece.last >= start)
        return sum(piece.last - max(piece.first, start) + 1 for piece in done)

    def index_of(self, offset: int) -> int:
        """The index of the last batch that begins at or before an offset; -1 if none does."""
        return bisect_right(self, offset, key=_FIRST) - 1

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before an offset."""
        index = self.index_of(offset)
        return None if index < 0 else self[index]

    def from_to(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches from the one that has the first offset, or is before it, to the one that has the last."""
        return self[max(self.index_of(first), 0) : self.index_of(last) + 1]

    def beginning_between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin between two offsets, both included."""
        return [each for each in self.from_to(first, last) if each.first >= first]
