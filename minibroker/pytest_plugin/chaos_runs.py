"""Runs a test under chaos several times, and shrinks and reports what made it fail (docs/chaos.md).

pytest sees one test. Each run sets up and tears down the test with its function-scoped fixtures, so that it begins
with an empty broker. The first failure ends the runs.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import pytest
from _pytest.runner import runtestprotocol

from minibroker.operations.wording import format_count
from minibroker.pytest_plugin import CHAOS_PROPERTY, CHAOS_RUN
from minibroker_chaos.rows import PROFILES, rows_of
from minibroker_chaos.shrinking import Novelty, ShrinkResult, Trial, shrink
from minibroker_chaos.steps import DEFAULT_PROFILE, NOT_EXERCISED, ChaosError, Step, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from minibroker.broker import Broker
    from minibroker_chaos.engine import Chaos

DEFAULT_RUNS: Final = 20
FIRST_SEED: Final = 1
_SHOWN_STEPS: Final = 30
_MARK: Final = "pytest.mark.kafka_chaos"


@dataclass(frozen=True)
class Plan:
    """The runs of a test.

    Attributes:
        runs: Their number.
        seed: The first seed.
        profile: The profile of the seeds.
        only: The only misbehaviours to use.
        without: The misbehaviours to leave out.
        steps: The steps of all runs, instead of seeds.
    """

    runs: int
    seed: int = FIRST_SEED
    profile: str = DEFAULT_PROFILE
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    steps: list[Step] | None = None


def check_options(config: pytest.Config) -> None:
    """Check the command line.

    Raises:
        UsageError: An option is invalid.
    """
    option = config.option
    if option.kafka_chaos_runs is not None and option.kafka_chaos_runs < 0:
        raise pytest.UsageError(f"--kafka-chaos-runs: {option.kafka_chaos_runs} is not a number of runs")
    if option.kafka_chaos_profile not in {None, *PROFILES}:
        raise pytest.UsageError(f"--kafka-chaos-profile: there are {', '.join(PROFILES)}")
    if option.kafka_chaos_shrink and getattr(option, "numprocesses", None):
        raise pytest.UsageError("--kafka-chaos-shrink: shrinking takes one process; add -n 0")
    if option.kafka_chaos_steps is not None:
        try:
            _read_steps(Path(option.kafka_chaos_steps))
        except ChaosError as error:
            raise pytest.UsageError(f"--kafka-chaos-steps: {error}") from None


def _read_steps(path: Path) -> list[Step]:
    """Return the steps that a file has.

    Raises:
        ChaosError: The file cannot be read, or has other content.
    """
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ChaosError(f"{path}: {error}") from None


def read_plan(item: pytest.Item) -> Plan:
    """Return the runs of a test: those of its mark, except for what the command line says.

    Raises:
        ChaosError: The mark is invalid.
    """
    mark = item.get_closest_marker("kafka_chaos")
    option = item.config.option
    try:
        plan = Plan(DEFAULT_RUNS) if mark is None else _read_mark(item, *mark.args, **mark.kwargs)
    except TypeError as error:
        # Python's message names the function.
        reason = str(error).removeprefix("_read_mark() ")
        raise ChaosError(f"{_MARK} {reason}; it takes runs, profile, only, without, seed, steps") from None
    changes: dict[str, Any] = {}
    if option.kafka_chaos_profile is not None:
        changes["profile"] = option.kafka_chaos_profile
    if option.kafka_chaos_seed is not None:
        changes |= {"seed": option.kafka_chaos_seed, "steps": None, "runs": 1}
    if option.kafka_chaos_steps is not None:
        changes |= {"steps": _read_steps(Path(option.kafka_chaos_steps)), "runs": 1}
    if option.kafka_chaos_runs is not None:
        changes["runs"] = option.kafka_chaos_runs
    return Plan(**(vars(plan) | changes))


def _read_mark(
    item: pytest.Item,
    *,
    runs: int | None = None,
    profile: str = DEFAULT_PROFILE,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    seed: int | None = None,
    steps: str | None = None,
) -> Plan:
    """Return the plan of a mark. The path of `steps` is relative to the test's file."""
    if isinstance(only, str) or isinstance(without, str):
        raise ChaosError(f"{_MARK}: `only` and `without` take lists of names")
    rows_of(profile, only, without)
    stored = None if steps is None else _read_steps(item.path.parent / steps)
    if runs is None:
        runs = DEFAULT_RUNS if seed is None and stored is None else 1
    first = FIRST_SEED if seed is None else seed
    return Plan(runs, first, profile, tuple(only), tuple(without), stored)


@dataclass
class Run:
    """One run of a test. The fixture `kafka` puts its broker under the run's chaos.

    Attributes:
        arguments: The arguments of `broker.chaos`, or None for a run without chaos.
        problem: Why the test cannot run, or why its run says nothing.
        chaos: The chaos, once it has begun.
    """

    arguments: dict[str, Any] | None = None
    problem: str | None = None
    chaos: Chaos | None = None

    @property
    def steps(self) -> list[Step]:
        """What has gone wrong."""
        return [] if self.chaos is None else self.chaos.steps

    @contextmanager
    def on(self, broker: Broker) -> Generator[None]:
        """Put a broker under chaos for a test and its fixtures, then judge the broker and the clients."""
        if self.problem is not None:
            pytest.fail(self.problem, pytrace=False)
        if self.arguments is None:
            yield
            return
        try:
            handle = broker.chaos(**self.arguments).__enter__()
        except ChaosError as error:
            pytest.fail(str(error), pytrace=False)
        self.chaos = chaos = cast("Chaos", broker.services.chaos)
        services = broker.services
        yield
        if not broker.is_running or broker.services is not services:
            return  # The test has stopped its broker, and thereby the chaos.
        handle.__exit__()
        if chaos.violations:
            self._void(
                "the broker broke a rule that Kafka keeps, so this run says nothing about the test. This is a bug of "
                "minibroker; please report it with its seed and steps:\n" + "\n".join(chaos.violations)
            )
        if chaos.outlived:
            self._void(
                f"clients outlived the reset before this run: {', '.join(sorted(chaos.outlived))}. They go on with the "
                "offsets of an earlier run. Make and close them in the test or in a fixture of its scope; if they have "
                f"to live on, exclude the test with @{_MARK}(runs=0)"
            )

    def _void(self, problem: str) -> NoReturn:
        self.problem = problem
        pytest.fail(problem, pytrace=False)


class _TestRuns:
    """The runs of one test."""

    def __init__(self, item: pytest.Item, nextitem: pytest.Item | None, plan: Plan) -> None:
        self._item = item
        self._nextitem = nextitem
        self._plan = plan
        self._properties = tuple(item.user_properties)
        self._counts: dict[str, Any] = {"runs": 0, "felt": 0, "failed": False}

    def run(self) -> list[pytest.TestReport]:
        """Run the test until a run fails, and return the reports of the test."""
        plan, seeds = self._plan, count(self._plan.seed)
        novelty = Novelty(plan.seed)
        reports: list[pytest.TestReport] = []
        duration = 0.0
        for number in range(1, plan.runs + 1):
            steps = plan.steps if plan.steps is not None else novelty.mutate()
            if steps is not None:
                run = Run({"steps": steps})
            else:
                choices = {"profile": plan.profile, "only": plan.only, "without": plan.without}
                run = Run({"seed": next(seeds), **choices})
            reports = self._run_once(run, is_last=number == plan.runs)
            duration += reports[1].duration
            self._count(run)
            if not all(report.passed for report in reports):
                self._end(reports, run, number)
                break
            if run.chaos is not None and run.chaos.is_felt:
                novelty.add(run.steps)
        reports[1].duration = duration
        reports[-1].user_properties.append((CHAOS_PROPERTY, self._counts))
        return reports

    def _run_once(self, run: Run, *, is_last: bool = False) -> list[pytest.TestReport]:
        """Run the test once. Only the last run ends the fixtures that other tests of its module share."""
        item = self._item
        item.stash[CHAOS_RUN] = run
        # pytest runs a test once, and keeps the output and the properties of earlier runs.
        vars(item)["_report_sections"].clear()
        item.user_properties[:] = self._properties
        kept = self._nextitem if is_last else cast("pytest.Item", item.parent)
        return runtestprotocol(item, log=False, nextitem=kept)

    def _count(self, run: Run) -> None:
        counts, chaos = self._counts, run.chaos
        counts["runs"] += 1
        if chaos is not None:
            counts["felt"] += chaos.is_felt
            counts["cluster"] = chaos.cluster
            counts["missed"] = 0 if self._plan.steps is None else chaos.met[2]
            counts["replaced"] = chaos.is_replaced

    def _end(self, reports: list[pytest.TestReport], run: Run, number: int) -> None:
        """Describe a failed run, after others that shrink it and that show the test without chaos."""
        failed = next((report for report in reports if report.failed), None)
        lines: list[str] = []
        if failed is not None and run.chaos is not None:
            self._counts["failed"] = True
            lines = _shorten([line for line in run.chaos.report() if not line.startswith(NOT_EXERCISED)])
            if self._item.config.option.kafka_chaos_shrink and run.steps and run.problem is None:
                lines += [*self._describe_repetition(run, []), *self._shrink(run, reports)]
            else:
                lines += self._describe_repetition(run, run.steps)
        alone = self._run_once(Run(), is_last=True)
        if failed is not None and lines:
            passes = _failure_of(alone) is None
            outcome = "passes" if passes else "fails, too"
            if passes and len(run.steps) > 1 and not self._item.config.option.kafka_chaos_shrink:
                lines.append("find the steps that matter: add --kafka-chaos-shrink")
            if passes and run.chaos is not None and not (run.steps or run.problem or run.chaos.is_replaced):
                lines.append("nothing had gone wrong in this run: the test fails by itself now and then")
            self._counts["repeat"] = [line for line in lines if line.startswith(("shrunk from", "repeat "))]
            lines.insert(0, f"run {number} of {self._plan.runs}; without chaos the test {outcome}")
            failed.sections.append(("kafka chaos", "\n".join(lines)))

    def _describe_repetition(self, run: Run, steps: Sequence[Step]) -> list[str]:
        """Return the command lines that repeat a run and its steps."""
        test = _relative_id(self._item)
        lines: list[str] = []
        seed = (run.arguments or {}).get("seed")
        if seed is not None:
            profile = self._item.config.option.kafka_chaos_profile
            profile = "" if profile is None else f" --kafka-chaos-profile={profile}"
            lines.append(f'repeat it: pytest --kafka-chaos-seed={seed}{profile} "{test}"')
        if steps:
            path = self._store(steps, seed)
            lines.append(f'repeat its steps: pytest --kafka-chaos-steps="{path}" "{test}"')
        return lines

    def _store(self, steps: Sequence[Step], seed: int | None) -> str:
        """Write steps to a file, and return its path."""
        cache: pytest.Cache | None = getattr(self._item.config, "cache", None)
        directory = Path(tempfile.gettempdir()) if cache is None else cache.mkdir("kafka-chaos")
        name = re.sub(r"\W+", "-", self._item.nodeid).strip("-")
        path = directory / f"{name}.json"
        path.write_text(json.dumps(to_json(steps, seed, self._plan.profile), indent=2))
        return os.path.relpath(path) if cache is not None else str(path)

    def _shrink(self, run: Run, reports: list[pytest.TestReport]) -> list[str]:
        """Return lines about the smallest set of steps that still fails."""
        seconds = self._item.config.option.kafka_chaos_shrink_seconds
        terminal: Any = self._item.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"shrinking the {len(run.steps)} steps of {self._item.nodeid}, about {seconds:g} s")

        def repeat(steps: Sequence[Step]) -> Trial:
            again = Run({"steps": list(steps)})
            failure = _failure_of(self._run_once(again))
            if failure is not None:
                _release_frames()
            return Trial(failure, again.steps)

        before = len(run.steps)
        result = shrink(run.steps, repeat, failure=_failure_of(reports), deadline_s=seconds)
        if not result.has_recurred:
            return [str(result), *self._describe_repetition(Run(), result.steps)]
        return [f"shrunk from {before} in {result.runs} runs to {result}", *self._describe_shrunk(result)]

    def _describe_shrunk(self, result: ShrinkResult) -> list[str]:
        if result.needs_no_chaos:
            return []
        return [
            f"without: {result.failed_without} of as many runs fail",
            *map(str, result.steps),
            *(f"another failure, {number} times: {failure}" for failure, number in result.others.items()),
            *self._describe_repetition(Run(), result.steps),
        ]


def run_under_chaos(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test as its plan says, and report it as one test. Return False if its plan has no runs."""
    try:
        plan = read_plan(item)
    except ChaosError as error:
        item.stash[CHAOS_RUN] = Run(problem=str(error))
        return False
    if not plan.runs:
        return False
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _TestRuns(item, nextitem, plan).run():
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _relative_id(item: pytest.Item) -> str:
    """Return the id of a test for a command line in the directory in which pytest was started."""
    return (
        os.path.relpath(item.path, item.config.invocation_params.dir) + item.nodeid[len(item.nodeid.split("::")[0]) :]
    )


def _failure_of(reports: Sequence[pytest.TestReport]) -> str | None:
    """Return what failed, without the records that it names, or None."""
    failed = next((report for report in reports if report.failed), None)
    if failed is None:
        return None
    crash = getattr(failed.longrepr, "reprcrash", None)
    if crash is None:
        return f"{failed.when}: {str(failed.longrepr).partition(chr(10))[0]}"
    check = re.search(r"\b(\w+), (?:certain|likely): ", crash.message)
    found = f", {check[1]}" if check is not None else ""
    return f"{failed.when}: {os.path.basename(crash.path)}:{crash.lineno}{found}"


def _shorten(lines: list[str]) -> list[str]:
    """Return the lines of a report, without the steps in the middle if there are many."""
    left_out = len(lines) - _SHOWN_STEPS
    half = _SHOWN_STEPS // 2
    return lines if left_out <= 0 else [*lines[:half], f"... and {left_out} more ...", *lines[-half:]]


def _release_frames() -> None:
    """Release the frames of a failure. Clients that they hold would send requests in the next runs."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()


def summarize(tests: dict[str, dict[str, Any]], *, is_verbose: bool) -> list[str]:
    """Return lines about the tests that ran under chaos, from the counts of each by its id."""
    runs, felt = (sum(counts[name] for counts in tests.values()) for name in ("runs", "felt"))
    clusters = sorted({counts["cluster"] for counts in tests.values() if "cluster" in counts})
    totals = f"{format_count(len(tests), 'test')}, {format_count(runs, 'run')}, clients reacted in {felt}"
    lines = [f"{totals}; {' or '.join(clusters)}"]
    for test, counts in tests.items():
        lines += [f"{test}: {line}" for line in counts.get("repeat", ())]
        if counts.get("missed"):
            lines.append(
                f"{test}: {format_count(counts['missed'], 'stored step')} did not happen: the test, its service or the "
                "order of requests has changed, or names are new in each run, such as client ids and topics"
            )
        elif not counts["failed"] and not counts["felt"]:
            why = "its own chaos takes the place of theirs" if counts.get("replaced") else "no client reacted"
            lines.append(f"{test}: not exercised, {why} in {counts['runs']} runs")
        elif is_verbose:
            lines.append(f"{test}: clients reacted in {counts['felt']} of {counts['runs']} runs")
    return lines
