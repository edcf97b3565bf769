"""Novelty: which runs showed something new, and what to run next.

A run's signature is what its misbehaviours made clients do. Runs with a new element are kept, and half of the next runs
are mutations of kept ones.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minibroker_chaos.steps import Step

_MAX_KEPT: Final = 64
_FRESH: Final = 0.5
"""The share of fresh seeds."""


def signature(steps: Sequence[Step]) -> frozenset[tuple[str, str]]:
    """Return the pairs of a misbehaviour and its reaction, and those of consecutive misbehaviours that were felt."""
    felt = [step.row for step in steps if step.is_felt]
    return frozenset((step.row, step.felt) for step in steps) | frozenset(pairwise(felt))


class Novelty:
    """The runs that showed something new.

    Attributes:
        seen: All elements of signatures so far.
        kept: The steps of the runs that had a new element, the newest last.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seen: set[tuple[str, str]] = set()
        self.kept: list[list[Step]] = []
        self._random = random.Random(seed)  # noqa: S311 - not used for secrets

    def add(self, steps: Sequence[Step]) -> bool:
        """Record a run, and return whether it showed something new."""
        new = signature(steps) - self.seen
        if not new:
            return False
        self.seen |= new
        self.kept = [*self.kept, [step.pending() for step in steps]][-_MAX_KEPT:]
        return True

    def mutate(self) -> list[Step] | None:
        """Return steps to run next, or None for a fresh seed.

        A mutation adds a step of another kept run, drops a step, or moves one to another point where its misbehaviour
        was seen.
        """
        if not self.kept or self._random.random() < _FRESH:
            return None
        steps = list(self._random.choice(self.kept))
        others = [step for run in self.kept for step in run if step not in steps]
        index = self._random.randrange(len(steps))
        moved = [replace(step, parameters=steps[index].parameters) for step in others if step.row == steps[index].row]
        change = self._random.choice(("add", "drop", "move"))
        if change == "move" and moved:
            steps[index] = self._random.choice(moved)
        elif change == "drop" and len(steps) > 1:
            del steps[index]
        elif others:
            steps.append(self._random.choice(others))
        else:
            return None
        return steps
