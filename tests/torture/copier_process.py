"""Copiers as processes, which can be killed, or stopped and woken as zombies."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.broker_process import environment
from tests.torture.broker import TIMEOUT
from tests.torture.copier import FENCED
from tests.torture.copies import CopyLedger
from tests.torture.ledger import TortureError

RECORDS: Final = 10
"""The most of a transaction."""
SESSION_MS: Final = 1000
TRANSACTION_MS: Final = 30_000


@dataclass(frozen=True)
class CopierProgram:
    """A copier with one client library.

    Attributes:
        command: builds it if need be, and returns how it is started.
        ends_when_fenced: or it takes its transactional id back.
        has_options: whether it takes the percentage of transactions to abort on purpose, a seed and an instance id.
    """

    name: str
    command: Callable[[], Sequence[str]]
    ends_when_fenced: bool
    has_options: bool


def librdkafka() -> CopierProgram:
    """confluent-kafka, with its librdkafka."""
    command = [sys.executable, "-m", "tests.torture.copier"]
    return CopierProgram("librdkafka", lambda: command, ends_when_fenced=True, has_options=True)


@dataclass(frozen=True)
class Errand:
    """What a copier is to do, in the order of its arguments."""

    bootstrap: str
    group: str
    source: str
    target: str
    transactional_id: str
    doomed_percent: int = 0
    seed: int = 0
    instance_id: str | None = None

    def arguments(self, *, with_options: bool) -> list[str]:
        """Of a copier's command line."""
        plain = [self.bootstrap, self.group, self.source, self.target, self.transactional_id]
        plain += map(str, (RECORDS, SESSION_MS, TRANSACTION_MS))
        if not with_options:
            return plain
        instance = [] if self.instance_id is None else [self.instance_id]
        return [*plain, str(self.doomed_percent), str(self.seed), *instance]


class CopierProcess:
    """One copier. What it says is appended to `log`, and what it was promised goes to the ledgers."""

    def __init__(self, program: CopierProgram, errand: Errand, log: Path, ledgers: Sequence[CopyLedger]) -> None:
        self.program = program
        self.log = log
        self.counts: dict[str, int] = {}
        self._ledgers = ledgers
        self._changed = threading.Condition()
        self._killed = False
        command = [*program.command(), *errand.arguments(with_options=program.has_options)]
        with log.open("ab") as stderr:
            stderr.write(f"== {errand}\n".encode())
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment()
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, event: str) -> None:
        """Until it has said that. `TortureError` if it ends before, or takes too long."""
        with self._changed:
            self._changed.wait_for(lambda: event in self.counts or not self._reader.is_alive(), TIMEOUT)
            if event not in self.counts:
                raise TortureError(f"no {event!r} of a copier; see {self.log}")

    def wait(self, timeout: float) -> int | None:
        """The exit status; None if it still runs."""
        try:
            status = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self._close()
        return status

    def check(self) -> None:
        """`TortureError` if it has ended by itself."""
        status = self._child.poll()
        if status is not None and not self._killed:
            why = "it was fenced, though nobody took its place" if status == FENCED else f"status {status}"
            raise TortureError(f"a copier has ended: {why}; see {self.log}")

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and it does nothing."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._killed = True
        self._child.kill()
        self._child.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(TIMEOUT)
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self.log.open("ab") as log:
                log.write(line)
            event: dict[str, Any] = json.loads(line)
            for _, partition, _, behind in event.get("ranges", ()):
                self._ledgers[partition].promise(behind)
            with self._changed:
                self.counts[event["event"]] = self.counts.get(event["event"], 0) + 1
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
