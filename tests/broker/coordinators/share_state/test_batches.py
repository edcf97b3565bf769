"""Batches of offsets in one state combine: for each offset the state counts that was delivered more often."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from minibroker.coordinators.share_state.state import StateBatch, combine

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def b(first: int, last: int, state: int = AVAILABLE, deliveries: int = 1) -> StateBatch:
    return StateBatch(first, last, deliveries, state)


def by_offset(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    """The highest (deliveries, state) of each offset."""
    ranks: dict[int, tuple[int, int]] = {}
    for each in batches:
        for offset in range(each.first, each.last + 1):
            ranks[offset] = max(ranks.get(offset, (-1, -1)), (each.deliveries, each.state))
    return ranks


@pytest.mark.parametrize("seed", range(50))
def test_random_batches_combine_to_the_highest_state_of_each_offset(seed: int) -> None:
    chance = random.Random(seed)
    state: list[StateBatch] = []
    expected: list[StateBatch] = []
    start = 0
    for _ in range(20):
        newer = [
            b(first, first + chance.randrange(6), chance.choice((0, 2, 4)), chance.randrange(1, 4))
            for first in chance.choices(range(start, start + 30), k=chance.randrange(4))
        ]
        start += chance.randrange(3)
        state = combine(state, newer, start)
        expected = [each for each in expected + newer if each.last >= start]
        assert by_offset(state) == {offset: rank for offset, rank in by_offset(expected).items() if offset >= start}
        for before, after in pairwise(state):
            assert before.last < after.first
            assert before.last + 1 < after.first or before[2:] != after[2:], "equal neighbors stay apart"
