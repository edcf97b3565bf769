"""Selects the records that a member gets from the records just read (`SharePartition.acquire`)."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

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
