"""Searches an application for its bug with chaos from seeds, and judges it with the broker's checks.

python -m tests.chaos.search [--fixed] [--seeds N] [--first SEED] [--seconds S] [--processes N] [--profile P] [NAME ...]
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import pytest

from minibroker import Broker, CheckFailedError
from minibroker_chaos.steps import VERSION, Step
from tests.chaos.catalogue import APPS, BY_NAME, App
from tests.chaos.driver import BATCHES, CONFIG, TOPICS, Run, say

CHECKS: Final = ("no_loss", "no_commit_ahead")
"""What every application of the corpus promises. Each promises one thing more at the most: that of its own check."""


@dataclass(frozen=True)
class Verdict:
    """What a run under chaos has shown.

    Attributes:
        failures: the names of the checks that found something.
        text: the results of these checks, the steps, and what the processes wrote.
        steps: that happened.
        felt: whether a client reacted to one.
        met: how many of the given steps happened exactly, at a later attempt, and not at all.
        seconds: the length of the run.
    """

    failures: tuple[str, ...]
    text: str
    steps: Sequence[Step]
    felt: bool
    met: tuple[int, int, int]
    seconds: float


@contextmanager
def subject(app: App, *, fixed: bool) -> Iterator["Subject"]:
    """An application with a broker for all its runs."""
    with Broker(brokers=3, topics=TOPICS, config=CONFIG, check=True, journal=20_000) as broker:
        yield Subject(app, broker, fixed=fixed)


class Subject:
    """An application that is run under chaos as often as one likes."""

    def __init__(self, app: App, broker: Broker, *, fixed: bool) -> None:
        self._app = app
        self._broker = broker
        self._fixed = fixed

    def run(self, **chaos: Any) -> Verdict:
        """Run the application under chaos with these arguments, let it catch up in the quiet phase, and judge."""
        began = time.monotonic()
        self._broker.reset()
        with TemporaryDirectory() as directory:
            run = Run(self._app, self._broker, Path(directory) / "stderr", fixed=self._fixed)
            try:
                with self._broker.chaos(**chaos) as engine:
                    run.begin()
                    run.wait_for_life()
                    for _ in range(1, BATCHES):
                        run.wait_for_outputs()
                        run.supervise()
                        run.feed()
                    engine.settle()
                    is_caught_up = run.settle()
                    run.end()
            finally:
                run.kill()
            results = {check: self._judge(check) for check in dict.fromkeys([*CHECKS, self._app.check])}
            if not is_caught_up:
                results["caught_up"] = f"caught_up: the lag is {self._broker.group(Run.group).lag()}"
            failures = tuple(check for check, result in results.items() if result)
            text = "\n".join([*results.values(), *engine.report(), run.stderr.read_text()[-4000:]])
        return Verdict(failures, text, engine.steps, engine.is_felt, engine.met, time.monotonic() - began)

    def _judge(self, check: str) -> str:
        """Return what a check found, or nothing."""
        of = self._broker.check
        try:
            if check == "commits_do_not_go_back":
                of.commits_do_not_go_back(Run.source)
            elif check != "caught_up":
                getattr(of, check)(Run.source, Run.target, key="value", group=Run.group)
        except CheckFailedError as error:
            return str(error)
        return ""


def search(app: App, seeds: Sequence[int], *, fixed: bool, seconds: float, profile: str | None) -> dict[int, Verdict]:
    """Run an application under seeds until the bug is found or the time is up. Returns the verdict of each seed."""
    end = time.monotonic() + seconds
    verdicts: dict[int, Verdict] = {}
    with subject(app, fixed=fixed) as it:
        for seed in seeds:
            verdicts[seed] = it.run(seed=seed, profile=profile or app.profile)
            if (verdicts[seed].failures and not fixed) or time.monotonic() > end:
                break
    return verdicts


def remaining(cache: pytest.Cache, name: str, count: int) -> Iterator[int]:
    """Yield the seeds that a long test has left: all of them, unless its last run was stopped."""
    place = f"chaos/{VERSION}/{name}"
    for seed in range(cast("int", cache.get(place, 0)), count):
        yield seed
        cache.set(place, seed + 1)
    cache.set(place, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *BY_NAME])
    parser.add_argument("--fixed", action="store_true", help="without the bug")
    parser.add_argument("--seeds", type=int, default=1000, help="at most so many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60, help="for each application")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--profile", help="instead of that of the catalogue")
    parser.add_argument("--verbose", action="store_true", help="show what was found")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    with ProcessPoolExecutor(options.processes) as pool:
        for app in [BY_NAME[name] for name in options.names] or APPS:
            given: dict[str, Any] = {"fixed": options.fixed, "seconds": options.seconds, "profile": options.profile}
            parts = [
                pool.submit(search, app, seeds[part :: options.processes], **given) for part in range(options.processes)
            ]
            searches = [part.result() for part in parts]
            verdicts = {seed: verdict for found in searches for seed, verdict in found.items()}
            failed = {seed: verdict for seed, verdict in sorted(verdicts.items()) if verdict.failures}
            took = min(
                sum(v.seconds for v in found.values()) for found in searches if not failed or failed.keys() & found
            )
            felt = sum(verdict.felt for verdict in verdicts.values())
            names = ", ".join(f"{seed} {'+'.join(verdict.failures)}" for seed, verdict in failed.items())
            say(f"{app.name:45} {len(verdicts):4} runs, {felt:4} felt, {took:5.1f} s  {names or 'nothing found'}")
            for seed, verdict in failed.items() if options.verbose else ():
                say(f"seed {seed}: {verdict.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
