"""`make suites`: the tests of other projects that use Kafka, run unchanged against minibroker; `--help` tells the rest.

Their source distributions are fetched by pip, with pinned hashes, and each gets an environment of its own below
build/suites. What pytest printed is left there, too. The exit status is 1 when a test fails that is not known to fail,
or when fewer tests than `LEAST` passed that opened a connection of their own.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.suites.catalogue import SUITES, Suite
from tests.suites.runs import ROOT, SuiteError, prepare, run

LEAST: Final = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="make suites", description=__doc__)
    parser.add_argument("--only", help="projects, with commas in between", default=",".join(s.project for s in SUITES))
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "suites")
    options = parser.parse_args()
    projects = options.only.split(",")
    chosen = [suite for suite in SUITES if suite.project in projects]
    failures = connecting = 0
    for suite in chosen:
        try:
            folder = options.directory / suite.project
            prepare(suite, folder)
            failed, connected = run_and_report(suite, folder)
        except SuiteError as error:
            say(f"{suite.project} {suite.version}: {error}")
            failed, connected = 1, 0
        failures, connecting = failures + failed, connecting + connected
    say(f"{connecting} passed tests opened connections; {failures} failures that are not known")
    return int(failures > 0 or (len(chosen) == len(SUITES) and connecting < LEAST))


def run_and_report(suite: Suite, folder: Path) -> tuple[int, int]:
    """Run a suite and say what came of it; returns how many failed unexpectedly, and how many that passed connected."""
    tests = run(suite, folder)
    outcomes = Counter(test.outcome for test in tests)
    connected = sum(test.connects and test.outcome == "passed" for test in tests)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    say(f"{suite.project} {suite.version}: {summary}; {connected} of the passed ones opened connections")
    unexpected = 0
    for test in tests:
        known = suite.known.get(test.name)
        if test.outcome == "failed":
            unexpected += known is None
            say(f"  failed: {test.name} ({known or 'not known, see ' + str(folder / 'output.txt')})")
        elif known and test.outcome == "passed":
            say(f"  passed, although it is known to fail: {test.name}")
    return unexpected, connected


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
