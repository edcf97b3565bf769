"""Acquisition: the records that a member gets of what was read (`SharePartition.acquire`), and their locks."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from minibroker.clock import Clock, Timer

_LEAST_THROTTLED: Final = 2


class Limits(NamedTuple):
    """The limits of a share group.

    Attributes:
        lock_ms: how long a member has acquired records to itself.
        deliveries: how often a record is delivered at most.
        locks: how many offsets of a partition are in flight at most.
        renews: members may renew their locks (KIP-1222).
        buries: unprocessable records go to a dead-letter queue (KIP-1191).
        reads_committed: members get no records of transactions that are open or were aborted.
    """

    lock_ms: int
    deliveries: int
    locks: int
    renews: bool = True
    buries: bool = False
    reads_committed: bool = False


class LockTimer:
    """One timer for all locks; `on_end` is called when the first one ends."""

    __slots__ = ("_at_ms", "_clock", "_is_closed", "_on_end", "_timer")

    def __init__(self, clock: Clock, on_end: Callable[[], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._timer: Timer | None = None
        self._at_ms = 0.0
        self._is_closed = False

    def watch(self, deadline_ms: float | None) -> None:
        """Wake up at a time of the clock's monotonic time, or with None at no time. It may be later than before."""
        if self._timer is not None and (deadline_ms is None or deadline_ms < self._at_ms):
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None and self._timer is None and not self._is_closed:
            self._at_ms = deadline_ms
            self._timer = self._clock.call_later(max(deadline_ms - self._clock.monotonic_ms(), 0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._on_end()

    def close(self) -> None:
        """Wake up no more."""
        self._is_closed = True
        self.watch(None)


class Acquired(NamedTuple):
    """Offsets that a member has acquired, the last one included; `deliveries` is 1 at the first delivery."""

    first: int
    last: int
    deliveries: int


class Span(NamedTuple):
    """The offsets of one batch of the log, the last one included."""

    first: int
    last: int


class Wish(NamedTuple):
    """A member's wish for records.

    Attributes:
        max_records: how many it takes; more where whole batches are asked for and the limit falls amid one.
        batch_size: how many offsets it would like to have acquired in one, which are acknowledged in one.
        is_strict: `max_records` is never exceeded (KIP-1206).
    """

    member: str
    max_records: int
    batch_size: int
    is_strict: bool


def throttled_from(delivery_limit: int) -> int:
    """The number of deliveries from which on a record comes with few others: one of them may be bad."""
    return max(_LEAST_THROTTLED, -(-delivery_limit // 2))


def end_of_batch_with(offset: int, spans: Iterable[Span]) -> int:
    """The last offset of the batch of the log that has an offset, or the offset itself where none has it."""
    return next((span.last for span in spans if span.first <= offset <= span.last), offset)


def in_batches(first: int, last: int, spans: Iterable[Span], size: int) -> list[Acquired]:
    """Offsets that no member has had yet, parted where a batch of the log begins and `size` is reached."""
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


def joined(acquired: Iterable[Acquired]) -> list[Acquired]:
    """One element for each run of neighbors that were delivered equally often."""
    runs: list[Acquired] = []
    for each in acquired:
        if runs and runs[-1].last + 1 == each.first and runs[-1].deliveries == each.deliveries:
            runs[-1] = runs[-1]._replace(last=each.last)
        else:
            runs.append(each)
    return runs


def without(acquired: Sequence[Acquired], spans: Sequence[Span]) -> list[Acquired]:
    """The acquired offsets that lie in none of some spans; both are in order."""
    left: list[Acquired] = []
    number = 0
    for each in acquired:
        first = each.first
        while number < len(spans) and spans[number].last < first:
            number += 1
        at = number
        while at < len(spans) and spans[at].first <= each.last:
            if first < spans[at].first:
                left.append(each._replace(first=first, last=spans[at].first - 1))
            first = spans[at].last + 1
            at += 1
        if first <= each.last:
            left.append(each._replace(first=first))
    return left


def merged(spans: Iterable[Span]) -> list[Span]:
    """One span for each run of neighbors; they are in order."""
    runs: list[Span] = []
    for each in spans:
        if runs and runs[-1].last + 1 == each.first:
            runs[-1] = runs[-1]._replace(last=each.last)
        else:
            runs.append(each)
    return runs
