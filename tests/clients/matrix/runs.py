"""Runs of drivers against a broker: all of them at the same time, each in a process of its own."""

import json
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import pytest

from tests.clients.matrix.clients import DRIVERS, Driver

TIMEOUT: Final = 400.0
"""Seconds for all checks of a driver."""

Results: TypeAlias = dict[str, str]
"""For each check what went wrong, or nothing."""


class Run:
    """A driver at work, on a thread that waits for it."""

    def __init__(self, driver: Driver, bootstrap: str, checks: Iterable[str] = ()) -> None:
        self.driver = driver
        self._bootstrap = bootstrap
        self._only = " ".join(checks)
        self._results: Results = {}
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._attempt, daemon=True)
        self._thread.start()

    def results(self) -> Results:
        """What came of its checks, once it has ended; what kept it from starting is raised."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._results

    def _attempt(self) -> None:
        try:
            self._results = self._run()
        except BaseException as failure:  # noqa: BLE001 - also the words of pytest that skip a test; `results` raises it
            self._failure = failure

    def _run(self) -> Results:
        start = self.driver.start()
        command = [*start.command, self._bootstrap, f"m{uuid.uuid4().hex[:8]}", *start.more]
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            ended = ""
            with subprocess.Popen(
                command,
                env={**start.environment, "ONLY": self._only},
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
        said = json.loads(line)
        for name in said.get("checks", ()):
            results[name] = f"there was no result; {complaint}"
        if "check" in said:
            results[said["check"]] = "" if said["ok"] else said["error"] or "failed"
    assert results, f"the driver has said nothing; {complaint}"
    return results


def run(bootstrap: str, drivers: Iterable[str], checks: Iterable[str] = (), jobs: int = 0) -> Mapping[str, Results]:
    """Run drivers, `jobs` at a time or all at once. What is missing for a driver is said, and it is left out."""
    results: dict[str, Results] = {}
    waiting = list(drivers)
    running: list[Run] = []
    while waiting or running:
        while waiting and (not jobs or len(running) < jobs):
            running.append(Run(DRIVERS[waiting.pop(0)], bootstrap, checks))
        each = running.pop(0)
        try:
            results[each.driver.name] = each.results()
        except (pytest.skip.Exception, pytest.fail.Exception) as reason:
            print(f"{each.driver.name}: left out, {reason}")  # noqa: T201 - a command says what it does
    return results
