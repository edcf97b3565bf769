"""Acquisition: which of the records read a member gets (`SharePartition.acquire`), and the locks on them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from minibroker.clock import Clock, Timer

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


class LockTimer:
    """One timer for all locks, which calls `on_end` when the first lock expires."""

    __slots__ = ("_at_ms", "_clock", "_is_closed", "_on_end", "_timer")

    def __init__(self, clock: Clock, on_end: Callable[[], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._timer: Timer | None = None
        self._at_ms = 0.0
        self._is_closed = False

    def watch(self, deadline_ms: float | None) -> None:
        """Set the timer to a monotonic time, or cancel it with None.

        A timer that is already set to an earlier time stays as it is.
        """
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
        """Cancel the timer for good."""
        self._is_closed = True
        self.watch(None)


class Acquired(NamedTuple):
    """A range of offsets that a member has acquired, the last offset included.

    Attributes:
        deliveries: The number of acquisitions, 1 for the first delivery.
    """

    first: int
    last: int
    deliveries: int


class Span(NamedTuple):
    """The offsets of one batch of the log, the last offset included."""

    first: int
    last: int


class AcquisitionRequest(NamedTuple):
    """A member's request for records.

    Attributes:
        max_records: The maximum number of records. Exceeded to complete a batch, unless `is_strict`.
        batch_size: The preferred size of acquired batches, which are acknowledged as a whole.
        is_strict: Whether `max_records` is never exceeded (KIP-1206).
    """

    member: str
    max_records: int
    batch_size: int
    is_strict: bool


def throttling_threshold(delivery_limit: int) -> int:
    """Return the number of deliveries from which a record comes with only a few others, because it may be bad."""
    return max(_MIN_THROTTLED_DELIVERIES, -(-delivery_limit // 2))


def end_of_batch(offset: int, spans: Iterable[Span]) -> int:
    """Return the last offset of the log's batch that contains an offset, or the offset itself if no batch does."""
    return next((span.last for span in spans if span.first <= offset <= span.last), offset)


def split_into_ranges(first: int, last: int, spans: Iterable[Span], size: int) -> list[Acquired]:
    """Split new offsets at batches of the log into acquired ranges of at least `size`, except the last range."""
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
    """Merge neighbors with the same number of deliveries."""
    runs: list[Acquired] = []
    for acquired_range in acquired:
        if runs and runs[-1].last + 1 == acquired_range.first and runs[-1].deliveries == acquired_range.deliveries:
            runs[-1] = runs[-1]._replace(last=acquired_range.last)
        else:
            runs.append(acquired_range)
    return runs


def without(acquired: Sequence[Acquired], spans: Sequence[Span]) -> list[Acquired]:
    """Return the acquired ranges without the offsets of some spans. Both lists are sorted."""
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


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge neighboring spans. The spans are sorted."""
    runs: list[Span] = []
    for span in spans:
        if runs and runs[-1].last + 1 == span.first:
            runs[-1] = runs[-1]._replace(last=span.last)
        else:
            runs.append(span)
    return runs
