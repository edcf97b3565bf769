"""Runs an application against a broker that misbehaves, and judges what it did.

python -m tests.chaos.driver [--fixed] [--quiet | --by-hand] [NAME ...]
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from minibroker import Broker, Message, WaitTimeoutError
from tests.chaos import programs
from tests.chaos.catalogue import APPS, BY_NAME, App
from tests.chaos.oracles import Judged
from tests.clients.broker_process import environment
from tests.patience import NO_RETENTION, PATIENCE_S, eventually

TOPICS: Final = ("in:3", "out:4")
BATCHES: Final = 10
RECORDS_PER_BATCH: Final = 30
_KEYS: Final = 12
CONFIG: Final[dict[str, str | int]] = {
    **NO_RETENTION,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "group.initial.rebalance.delay.ms": 0,
}
_PROGRESS_S: Final = 0.3
"""How long a batch of inputs waits for the outputs of the one before."""
_START_S: Final = 60.0
_QUIET_S: Final = 10.0
"""How long an application with a bug may do nothing in the quiet phase before it has caught up."""

Hurt = Callable[["Run"], object]


@dataclass(frozen=True)
class Outcome:
    """What a run has shown.

    Attributes:
        findings: what the check found; nothing if the application did what it should.
        exits: status of each process that ended by itself.
        stderr: all that the processes wrote.
        seconds: the length of the run.
    """

    findings: Sequence[Any]
    exits: Sequence[int]
    stderr: str
    seconds: float


class Run:
    """One application on one broker."""

    source: Final = "in"
    target: Final = "out"
    group: Final = "app"

    def __init__(self, app: App, broker: Broker, stderr: Path, *, fixed: bool) -> None:
        self.app = app
        self.broker = broker
        self.processes: list[subprocess.Popen[bytes]] = []
        self.exits: list[int] = []
        self.sent = 0
        self.stderr = stderr
        client, name = app.name.split(":")
        self._quiet_s = PATIENCE_S if fixed else _QUIET_S  # A slow machine must not make a twin a suspect.
        self._command = [*programs.command(client), name, *(["--fixed"] if fixed else [])]
        self._command += ["--bootstrap", broker.bootstrap_servers.partition(",")[0]]
        self._command += ["--in", self.source, "--out", self.target, "--group", self.group]

    def start(self) -> None:
        """Start all instances, and wait until they read."""
        self.begin()
        eventually(self._is_reading)

    def begin(self) -> None:
        """Start all instances."""
        self.processes = [self._start() for _ in range(self.app.instances)]

    def feed(self) -> None:
        """Write a batch of inputs."""
        numbers = range(self.sent, self.sent + RECORDS_PER_BATCH)
        keys = min(_KEYS, 1 + self.sent // RECORDS_PER_BATCH)  # so that some partitions begin late
        self.broker.produce(self.source, *(Message(str(number), key=f"k{number % keys}") for number in numbers))
        self.sent += RECORDS_PER_BATCH

    def wait_for_outputs(self, timeout: float = _PROGRESS_S) -> None:
        """Wait for as many outputs as there are inputs, up to so many seconds."""
        with suppress(WaitTimeoutError):
            self.broker.wait_for(self.target, self.sent, timeout=timeout)

    def wait_for_life(self) -> None:
        """Write the first inputs, and wait for the first output, for as long as a busy machine may need to start."""
        self.feed()
        deadline = time.monotonic() + _START_S
        while not self.broker.records(self.target) and time.monotonic() < deadline:
            self.supervise()
            with suppress(WaitTimeoutError):
                self.broker.wait_for(self.target, 1, timeout=1)

    def supervise(self) -> None:
        """Start the instances again that have failed."""
        for index, process in enumerate(self.processes):
            if process.poll() is not None:
                self.exits.append(process.returncode)
                self.processes[index] = self._start()

    def restart(self) -> None:
        """End the first instance with the signal of the scenario, and start it again."""
        if self.app.restart is not None:
            self.processes[0].send_signal(self.app.restart)
            self.processes[0].wait(PATIENCE_S)
            self.broker.clock.advance(7)  # beyond its session, which it has not left if it was killed
            self.processes[0] = self._start()

    def settle(self) -> bool:
        """Return whether the application catches up in the time for it."""
        deadline = time.monotonic() + self._quiet_s
        progress: object = None
        while time.monotonic() < deadline:
            self.supervise()
            outputs = len(self.broker.records(self.target))
            if progress != (progress := (self.broker.group(self.group).lag(), outputs)):
                deadline = time.monotonic() + self._quiet_s
            with suppress(WaitTimeoutError):
                self.broker.group(self.group).wait_until_caught_up(self.source, timeout=1)
                return True
        return False

    def end(self) -> None:
        """End all instances with SIGTERM, and kill those that hang."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(_QUIET_S)
            except subprocess.TimeoutExpired:
                process.kill()
                self.exits.append(process.wait())

    def kill(self) -> None:
        """End what still runs."""
        for process in self.processes:
            process.kill()
            process.wait()

    def _is_reading(self) -> bool:
        ended = [process for process in self.processes if process.poll() is not None]
        assert not ended, self.stderr.read_text()
        with suppress(WaitTimeoutError):
            self.broker.group(self.group).wait_until_stable(self.app.instances, timeout=1)
            return len(self.broker.wait_for_requests(self.app.instances, api="Fetch", topic=self.source, timeout=1)) > 0
        return False

    def _start(self) -> subprocess.Popen[bytes]:
        with self.stderr.open("ab") as stderr:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=stderr, env=environment())


@contextmanager
def prepared(app: App, *, fixed: bool) -> Iterator[Run]:
    """A run whose application has started and reads."""
    with TemporaryDirectory() as directory, Broker(brokers=3, topics=TOPICS, config=CONFIG, journal=100_000) as broker:
        run = Run(app, broker, Path(directory) / "stderr", fixed=fixed)
        try:
            run.start()
            yield run
        finally:
            run.kill()


def drive(app: App, *, fixed: bool, hurt: Hurt | None = None) -> Outcome:
    """Run an application, hurt it before each batch of inputs, let it catch up, and judge."""
    began = time.monotonic()
    with prepared(app, fixed=fixed) as run:
        for batch in range(BATCHES):
            if hurt is not None:
                hurt(run)
            run.feed()
            run.wait_for_outputs()
            if batch == BATCHES // 2 and hurt is not None:
                run.restart()
            run.supervise()
        run.broker.faults.clear()
        run.settle()
        run.end()
        findings = Judged(run.broker, run.source, run.target, run.group).findings(app.check)
        return Outcome(findings, run.exits, run.stderr.read_text(), time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *BY_NAME])
    parser.add_argument("--fixed", action="store_true", help="without the bug")
    parser.add_argument("--quiet", action="store_true", help="on a broker that does not misbehave")
    parser.add_argument("--verbose", action="store_true", help="show what the applications log")
    options = parser.parse_args()
    for app in [BY_NAME[name] for name in options.names] or APPS:
        outcome = drive(app, fixed=options.fixed, hurt=None if options.quiet else app.provoke)
        found = f"{app.check}: {outcome.findings[:5]}" if outcome.findings else "nothing found"
        say(f"{app.name:45} {outcome.seconds:5.1f} s  {found} {outcome.exits or ''}")
        if options.verbose:
            say(outcome.stderr)
    return 0


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it is a program


if __name__ == "__main__":
    sys.exit(main())
