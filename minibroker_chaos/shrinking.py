"""Shrinking: the smallest set of steps with which a run still fails (delta debugging, ddmin), then the mildest.

A program under test is rarely deterministic, so one run without the failure proves little. A candidate counts as
passing only after enough runs, given how often the failure was seen.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_chaos.rows import find_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from minibroker_chaos.steps import Step


REPEATS: Final = 10
"""The runs that tell how often the first and the last steps fail."""
_DOUBT: Final = 0.05
"""The accepted chance that a candidate is taken for passing although it fails sometimes."""
_COUNTS: Final = 3
"""The parts of the time that one count of failures may take: at the start, with the last steps, without any."""
_LOWEST_SHARE: Final = 0.2
"""Below this share of failing runs, removing steps would take too many runs."""
_Z: Final = 1.96


class Trial(NamedTuple):
    """The result of one run with given steps.

    Attributes:
        failure: What failed, without the record or the line where it did, or None if nothing failed.
        met: The steps that happened, or None if that is unknown.
    """

    failure: str | None
    met: Sequence[Step] | None = None


@dataclass
class ShrinkResult:
    """The smallest failing set of steps that was found.

    Attributes:
        steps: The steps.
        failed: The number of failures in the last `repeats` runs with these steps.
        repeats: The number of these runs, which is lower if the time was up.
        failed_without: The number of failures in as many runs without any step.
        is_complete: Whether no single step can be left out, as far as the runs tell.
        has_recurred: Whether the given steps failed again. Otherwise they are the result.
        others: Other failures that were seen, with their counts.
        runs: The number of all runs.
    """

    steps: list[Step]
    failed: int = 0
    repeats: int = 0
    failed_without: int = 0
    is_complete: bool = False
    has_recurred: bool = True
    others: Counter[str] = field(default_factory=Counter[str])
    runs: int = 0

    @property
    def needs_no_chaos(self) -> bool:
        """Whether the failure was seen without any misbehaviour."""
        return self.failed_without > 0

    def __str__(self) -> str:
        if not self.has_recurred:
            others = "".join(f"; another failure, {number} times: {failure}" for failure, number in self.others.items())
            return f"it did not fail again in {self.repeats} runs; nothing was shrunk{others}"
        if self.needs_no_chaos:
            return f"nothing: {self.failed_without} of {self.repeats} runs fail without any misbehaviour, too"
        low, high = confidence(self.failed, self.repeats)
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        end = "" if self.is_complete and self.repeats == REPEATS else "; the time was up"
        return f"{steps}: {self.failed} of {self.repeats} runs fail ({low:.0%} to {high:.0%}){end}"


def confidence(failed: int, runs: int) -> tuple[float, float]:
    """Return the Wilson interval of 95 % for a share."""
    if not runs:
        return 0.0, 1.0
    share, square = failed / runs, _Z * _Z
    middle, spread = share + square / (2 * runs), _Z * math.sqrt((share * (1 - share) + square / (4 * runs)) / runs)
    return max(0.0, (middle - spread) / (1 + square / runs)), min(1.0, (middle + spread) / (1 + square / runs))


class _Shrinker:
    """One search. A failure is the same if it has the same text; others are counted and not followed."""

    def __init__(
        self, steps: Sequence[Step], run: Callable[[Sequence[Step]], Trial], failure: str | None, deadline_s: float
    ) -> None:
        self.steps = [step.pending() for step in steps]
        self._run = run
        self._failure = failure
        self._deadline = monotonic() + deadline_s
        self._count_s = deadline_s / _COUNTS
        self._tries = 1
        self.result = ShrinkResult(self.steps)

    @property
    def _is_late(self) -> bool:
        return monotonic() >= self._deadline

    def _try(self, steps: Sequence[Step]) -> Trial | None:
        """Return the trial of one run if it has the failure."""
        self.result.runs += 1
        trial = self._run(steps)
        if trial.failure is None:
            return None
        if self._failure is None:
            self._failure = trial.failure
        if trial.failure != self._failure:
            self.result.others[trial.failure] += 1
            return None
        return trial

    def _repeat(self, steps: Sequence[Step]) -> tuple[int, int]:
        """Return in how many of how many runs the steps fail. At least one run is made, whatever the time."""
        failed = runs = 0
        end = monotonic() + self._count_s
        while runs < REPEATS and not (runs and monotonic() >= end):
            failed += self._try(steps) is not None
            runs += 1
        return failed, runs

    def _accept(self, steps: list[Step]) -> bool:
        """Take a smaller set of steps if it fails once. Steps that were not met are left out for free."""
        for _ in range(self._tries):
            if self._is_late:
                return False
            trial = self._try(steps)
            if trial is not None:
                met = steps if trial.met is None else [step.pending() for step in trial.met]
                self.steps = met if len(met) <= len(steps) else steps
                return True
        return False

    def shrink(self) -> ShrinkResult:
        """Search until no step can go, or until the time is up."""
        failed, runs = self._repeat(self.steps)
        if not failed:
            self.result.repeats, self.result.has_recurred = runs, False
            return self.result
        share = failed / runs
        if share > _LOWEST_SHARE:
            self._tries = 1 if share == 1 else math.ceil(math.log(_DOUBT) / math.log(1 - share))
            self._remove_kinds()
            self._remove_parts()
            self._weaken()
            self.result.is_complete = not self._is_late
            failed, runs = self._repeat(self.steps)
        result = self.result
        result.steps, result.failed, result.repeats = self.steps, failed, runs
        result.failed_without = self._repeat([])[0]
        return result

    def _remove_kinds(self) -> None:
        """Remove all steps of a kind, the most frequent kind first."""
        for row, _ in Counter(step.row for step in self.steps).most_common():
            rest = [step for step in self.steps if step.row != row]
            if 0 < len(rest) < len(self.steps):
                self._accept(rest)

    def _remove_parts(self) -> None:
        """Remove halves, then smaller parts, down to single steps."""
        parts = 2
        while len(self.steps) > 1 and not self._is_late:
            size = math.ceil(len(self.steps) / parts)
            if any(self._accept(rest) for rest in self._without_parts(size)):
                parts = max(2, parts - 1)
            elif size == 1:
                return
            else:
                parts = min(2 * parts, len(self.steps))

    def _without_parts(self, size: int) -> Iterator[list[Step]]:
        """Yield the steps without each part, the last part first, because early steps have later effects."""
        steps = self.steps
        for start in reversed(range(0, len(steps), size)):
            yield steps[:start] + steps[start + size :]

    def _weaken(self) -> None:
        """Replace each step by weaker ones."""
        for index in range(len(self.steps)):
            while index < len(self.steps) and any(
                self._accept([*self.steps[:index], weaker, *self.steps[index + 1 :]])
                for weaker in weaker_steps(self.steps[index])
            ):
                pass


def weaker_steps(step: Step) -> Iterator[Step]:
    """Yield the next weaker forms of a step: lower parameters, a milder misbehaviour."""
    row = find_row(step.row)
    for name, (lowest, _) in row.parameters.items():
        value = step.parameters.get(name, lowest)
        if value > lowest:
            for lower in sorted({lowest, (lowest + value) // 2}):
                yield replace(step, parameters={**step.parameters, name: lower})
    if row.milder is not None:
        milder = find_row(row.milder)
        yield replace(step, row=milder.name, parameters={name: low for name, (low, _) in milder.parameters.items()})


def shrink(
    steps: Sequence[Step],
    run: Callable[[Sequence[Step]], Trial],
    *,
    failure: str | None = None,
    deadline_s: float = 300.0,
) -> ShrinkResult:
    """Return the smallest and mildest steps with which a run still fails.

    Args:
        steps: The steps of a failing run.
        run: Runs the program under these steps alone.
        failure: The failure to keep, or None for the first one seen.
        deadline_s: The time for the search, in seconds. The runs that count failures at its end come on top, for at
            most two thirds of this time.
    """
    return _Shrinker(steps, run, failure, deadline_s).shrink()


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
