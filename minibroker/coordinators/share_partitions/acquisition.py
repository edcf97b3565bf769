"""Acquisition: the records that a member gets of what was read (`SharePartition.acquire`)."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_LEAST_THROTTLED: Final = 2


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
