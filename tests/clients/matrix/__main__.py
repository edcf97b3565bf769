"""`python -m tests.clients.matrix`: run real clients against minibroker or Kafka, and record what passes."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.clients.matrix import records
from tests.clients.matrix.clients import DRIVERS, PROGRAMS
from tests.clients.matrix.features import FEATURES
from tests.clients.matrix.runs import Results, run
from tests.clients.matrix.servers import kafka, minibroker


@contextlib.contextmanager
def _broker(against: str, emulate: str | None) -> Iterator[str]:
    """Where it listens."""
    if ":" in against:
        yield against
        return
    with tempfile.TemporaryDirectory() as scratch:
        if against.startswith("kafka-"):
            with kafka(against.removeprefix("kafka-"), Path(scratch)) as bootstrap:
                yield bootstrap
            return
        with minibroker(Path(scratch), ["--emulate", emulate] if emulate else []) as bootstrap:
            yield bootstrap


def main() -> int:
    """Run them; the status is 1 when something fails that passes on Kafka."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.matrix", description=__doc__)
    parser.add_argument("--against", default=records.OURS, help="minibroker, kafka-3.9.1, kafka-4.4.0 or HOST:PORT")
    parser.add_argument("--clients", nargs="+", choices=list(DRIVERS), default=list(DRIVERS), metavar="CLIENT")
    parser.add_argument("--checks", nargs="+", choices=list(FEATURES), default=[], metavar="CHECK")
    parser.add_argument("--jobs", type=int, default=0, help="how many at the same time (default: all)")
    parser.add_argument("--seconds", type=int, help="the limit of a check (default: 5 minutes, which only hangs take)")
    parser.add_argument("--record", action="store_true", help="keep the results, and write docs/compatibility.md")
    parser.add_argument("--emulate", metavar="RELEASE", help="the release that minibroker speaks like")
    parser.add_argument(
        "--page", action="store_true", help="run nothing; write docs/compatibility.md from what is recorded"
    )
    given = parser.parse_args()
    failed = 0
    results: dict[str, Results] = {}
    if not given.page:
        with _broker(given.against, given.emulate) as bootstrap:
            began = time.monotonic()
            clients = [name for name in given.clients if name not in PROGRAMS]
            results |= run(bootstrap, clients, given.checks, given.jobs, given.seconds)
            # Beside the others they would take the time that these have.
            programs = [name for name in given.clients if name in PROGRAMS]
            results |= run(bootstrap, programs, given.checks, 1, given.seconds)
            failed = _say(results, time.monotonic() - began)
    if given.record:
        records.save(given.against, results)
    if given.record or given.page:
        records.PAGE.write_text(records.page())
    return failed


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it talks to whoever runs it


def _say(results: Mapping[str, Mapping[str, str]], seconds: float) -> int:
    failed = 0
    for driver, checks in results.items():
        wrong = {check: error for check, error in checks.items() if error}
        _print(f"{driver}: {len(checks) - len(wrong)} of {len(checks)} pass")
        for check, error in wrong.items():
            ours = records.passes_on_kafka(driver, check)
            failed |= ours
            _print(f"  {'FAILS' if ours else 'fails'} {check}: {error.splitlines()[0][:300]}")
    _print(f"{sum(len(checks) for checks in results.values())} checks in {seconds:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
