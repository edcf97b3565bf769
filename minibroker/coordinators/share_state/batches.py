"""Batches of offsets in one delivery state, and how newer ones combine with older ones (`PersisterStateBatchCombiner`).

Of two states of the same offset the one that was delivered more often counts, and at equal counts the later stage:
acknowledged counts more than available, and archived more than acknowledged.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final, NamedTuple

MOST_BATCHES: Final = 10_000
"""The batches of one state: as many as Kafka lets a group have offsets of a partition in flight."""
KEEP_START: Final = -1
"""A start offset that does not change."""


class StateBatch(NamedTuple):
    """Offsets in one state, the last one included; the order of the fields is the order of batches.

    `state` is 0 for available, 2 for acknowledged, 4 for archived records.
    """

    first: int
    last: int
    deliveries: int
    state: int


_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


def combine(so_far: Sequence[StateBatch], newer: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches that both amount to, in order, without overlaps and none below the start offset.

    Args:
        so_far: the result of an earlier call.
        newer: in any order; they may overlap.
        start_offset: KEEP_START leaves all batches as they are.
    """
    kept = _from(so_far, start_offset) if start_offset != KEEP_START else list(so_far)
    changes = sorted(_from(newer, start_offset) if start_offset != KEEP_START else newer)
    if not changes:
        return kept
    # Only what touches the changes is looked at: a change is small, and the state may be large.
    begin = bisect_left(kept, changes[0].first - 1, key=_LAST)
    end = bisect_right(kept, max(each.last for each in changes) + 1, lo=begin, key=_FIRST)
    return [*kept[:begin], *_without_overlaps([*kept[begin:end], *changes]), *kept[end:]]


def _from(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    return [
        each if each.first >= start_offset else each._replace(first=start_offset)
        for each in batches
        if each.last >= start_offset
    ]


def _without_overlaps(batches: list[StateBatch]) -> list[StateBatch]:
    """Sorted batches, each offset in one of them, equal neighbors in one."""
    heapify(batches)
    combined: list[StateBatch] = []
    earlier = heappop(batches)
    while batches:
        later = heappop(batches)
        rank, later_rank = (earlier.deliveries, earlier.state), (later.deliveries, later.state)
        if rank == later_rank and later.first <= earlier.last + 1:
            earlier = earlier._replace(last=max(earlier.last, later.last))
        elif later.first > earlier.last:
            _append(combined, earlier)
            earlier = later
        elif rank > later_rank:
            if later.last > earlier.last:
                heappush(batches, later._replace(first=earlier.last + 1))
        else:
            if earlier.first < later.first:
                _append(combined, earlier._replace(last=later.first - 1))
            if earlier.last > later.last:
                heappush(batches, earlier._replace(first=later.last + 1))
            earlier = later
    _append(combined, earlier)
    return combined


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    if combined:
        before = combined[-1]
        if before.last + 1 == batch.first and before[2:] == batch[2:]:
            combined[-1] = before._replace(last=batch.last)
            return
    combined.append(batch)
