"""Decisions: which misbehaviour happens at a point, from a seed or from the steps of an earlier run.

A decision is a keyed hash of the seed, the misbehaviour and the point. No stream of random numbers is shared, so one
request more or less changes no other decision.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from minibroker_chaos.steps import VERSION, Point, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minibroker_chaos.rows import Row

MAX_PER_OPERATION: Final = 3
"""Misbehaviours at one operation of a client and its retries, so that it succeeds in the end."""
_MAX_BUDGET: Final = 64
_RATES: Final = 0.02, 0.2
"""The lowest and the highest chance of a misbehaviour of weight 1 at a point. Their logarithm is uniform."""
_AGAIN: Final = 0.3
"""How much less likely a misbehaviour becomes with each earlier one at the same operation."""
_SINGLE: Final = 0.125
"""The share of runs with a single misbehaviour."""
_ON: Final = 0.5
"""The share of the misbehaviours that are on in other runs."""
_PER_UNIT: Final = 2**64


class SeededSchedule:
    """Decisions from a seed.

    Attributes:
        rows: The misbehaviours that are on in this run: about a half of those given, in some runs one.
        rate: The chance of a misbehaviour of weight 1 at a point.
        budget: The number of misbehaviours that may still happen.
        is_limited: Whether limits other than the budget hold, too.
    """

    is_limited: Final = True

    def __init__(self, seed: int, rows: Sequence[Row]) -> None:
        self._key = f"{VERSION}:{seed}".encode()
        self.rows = self._choose_rows(rows)
        low, high = _RATES
        self.rate = low * (high / low) ** self._unit("rate")
        self.budget = round(_MAX_BUDGET ** self._unit("budget"))

    def _choose_rows(self, rows: Sequence[Row]) -> frozenset[str]:
        if rows and self._unit("single") < _SINGLE:
            # The smallest of exponential variates chooses by weight, and a removed row leaves the others' order.
            first = min(rows, key=lambda row: -math.log(1 - self._unit("first", row.name)) / row.weight)
            return frozenset({first.name})
        return frozenset(row.name for row in rows if self._unit("on", row.name) < _ON)

    def _unit(self, *words: str | int) -> float:
        """Return a number from 0 to below 1 that follows from the seed and the words."""
        text = "\0".join(map(str, words)).encode(errors="surrogatepass")
        return int.from_bytes(blake2b(text, key=self._key, digest_size=8).digest()) / _PER_UNIT

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.budget <= 0 or not self.rows

    def propose(self, point: Point, rows: Sequence[Row], happened: int) -> list[Step]:
        """Return the steps to try at a point, the most decided one first.

        Args:
            point: The point.
            rows: The misbehaviours that are possible there.
            happened: The number of misbehaviours that the same operation has met before.
        """
        if self.budget <= 0 or happened >= MAX_PER_OPERATION:
            return []
        rate = self.rate * _AGAIN**happened
        due: list[tuple[float, Row]] = []
        for row in rows:
            if row.name in self.rows:
                share = self._unit(row.name, *point) / (rate * row.weight)
                if share < 1:
                    due.append((share, row))
        due.sort(key=lambda pair: pair[0])
        return [Step(row.name, *point, self._choose_parameters(row, point)) for _, row in due]

    def _choose_parameters(self, row: Row, point: Point) -> dict[str, int]:
        return {
            name: low + int(self._unit(row.name, *point, name) * (high - low + 1))
            for name, (low, high) in row.parameters.items()
        }

    def record(self, step: Step, point: Point) -> None:  # noqa: ARG002 - the other schedule needs them
        """Record that a proposed step has happened at a point."""
        self.budget -= 1


class StoredSchedule:
    """The steps of an earlier run, and nothing else.

    Attributes:
        exact: The number of steps that happened at their attempt.
        near: The number of steps that happened at a later attempt of their point.
        is_limited: False: what has happened before may happen again.
    """

    is_limited: Final = False

    def __init__(self, steps: Sequence[Step]) -> None:
        self._waiting: dict[str, list[Step]] = {}
        for step in steps:
            self._waiting.setdefault(step.point, []).append(step.pending())
        self.exact = self.near = 0

    @property
    def missed(self) -> int:
        """The number of steps whose points were not met."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return not self.missed

    def propose(self, point: Point, rows: Sequence[Row], happened: int) -> list[Step]:  # noqa: ARG002 - as above
        """Return the steps for this attempt, then those of earlier attempts that did not happen."""
        names = {row.name for row in rows}
        due = [
            step for step in self._waiting.get(point.name, ()) if step.attempt <= point.attempt and step.row in names
        ]
        return sorted(due, key=lambda step: -step.attempt)

    def record(self, step: Step, point: Point) -> None:
        """Record that a proposed step has happened at a point."""
        self._waiting[step.point].remove(step)
        if step.attempt == point.attempt:
            self.exact += 1
        else:
            self.near += 1


Schedule = SeededSchedule | StoredSchedule
