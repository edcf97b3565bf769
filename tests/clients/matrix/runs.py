"""Runs of drivers against a broker: all of them at the same time, each in a process of its own."""

import json
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import pytest

from tests.clients.matrix.clients import DRIVERS, Driver, Start

TIMEOUT: Final = 3_000.0
"""Seconds for all checks of a driver. Each of its checks has a limit of its own: this one ends a driver that hangs."""

Results: TypeAlias = dict[str, str]
"""For each check what went wrong, or nothing."""


Prepared: TypeAlias = Start | BaseException
"""The command that starts a driver, or the reason that skips or fails a test, in pytest's words."""


def prepare(driver: Driver) -> Prepared:
    """Fetch and build what it needs."""
    try:
        return driver.start()
    except BaseException as failure:  # noqa: BLE001 - whatever it is, `Run.results` raises it
        return failure


class Run:
    """A driver at work, on a thread that waits for it."""

    def __init__(
        self, prepared: Prepared, bootstrap: str, checks: Iterable[str] = (), seconds: int | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._limit = {"CHECK_SECONDS": str(seconds)} if seconds else {}
        self._only = " ".join(checks)
        self._results: Results = {}
        self._prepared = prepared
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        if isinstance(prepared, BaseException):
            self._failure = prepared
        else:
            self._thread = threading.Thread(target=self._attempt, args=(prepared,), daemon=True)
            self._thread.start()

    def results(self) -> Results:
        """The outcome of its checks, once it has ended; an error at its start is raised."""
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._results

    def repeat(self, checks: Iterable[str]) -> None:
        """Do these checks once more, as a test that failed is run once more: `results` waits for it."""
        self._only = " ".join(checks)
        if self._only and not isinstance(self._prepared, BaseException):
            self._thread = threading.Thread(target=self._attempt, args=(self._prepared,), daemon=True)
            self._thread.start()

    def _attempt(self, start: Start) -> None:
        try:
            self._results = {**self._results, **self._run(start)}
        except BaseException as failure:  # noqa: BLE001 - `results` raises it
            self._failure = failure

    def _run(self, start: Start) -> Results:
        command = [*start.command, self._bootstrap, f"m{uuid.uuid4().hex[:8]}", *start.more]
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            ended = ""
            with subprocess.Popen(
                command,
                env={**start.variables, **self._limit, "ONLY": self._only},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            ) as child:
                try:
                    child.wait(TIMEOUT)
                except subprocess.TimeoutExpired:
                    ended = f"the driver did not end within {TIMEOUT:.0f} s"
                finally:
                    child.kill()
            if child.returncode and not ended:
                ended = f"the driver ended with status {child.returncode}"
            output.seek(0)
            errors.seek(0)
            return _parse(output.read(), f"{ended}: {errors.read()[-600:]}")


def _parse(output: str, complaint: str) -> Results:
    """The results of the lines that a driver has printed; what it has announced and not done has failed."""
    results: Results = {}
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        report = json.loads(line)
        for name in report.get("checks", ()):
            results[name] = f"there was no result; {complaint}"
        if "check" in report:
            results[report["check"]] = "" if report["ok"] else report["error"] or "failed"
    assert results, f"the driver has said nothing; {complaint}"
    return results


def run(
    bootstrap: str, drivers: Iterable[str], checks: Iterable[str] = (), jobs: int = 0, seconds: int | None = None
) -> Mapping[str, Results]:
    """Run drivers, `jobs` at a time or all at once, each check for `seconds` at most.

    A driver that lacks something is left out, with a line that says so.
    """
    results: dict[str, Results] = {}
    waiting = [(name, prepare(DRIVERS[name])) for name in drivers]
    running: list[tuple[str, Run]] = []
    while waiting or running:
        while waiting and (not jobs or len(running) < jobs):
            name, prepared = waiting.pop(0)
            running.append((name, Run(prepared, bootstrap, checks, seconds)))
        name, each = running.pop(0)
        try:
            results[name] = each.results()
        except (pytest.skip.Exception, pytest.fail.Exception) as reason:
            print(f"{name}: left out, {reason}")  # noqa: T201 - a command says what it does
    return results
