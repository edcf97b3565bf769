"""Copiers as processes, which can be killed, or stopped and woken as zombies."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.clients.broker_process import environment
from tests.clients.java_programs import client_command
from tests.patience import PATIENCE_S
from tests.torture.copier import DISPLACED, FENCED
from tests.torture.copies import CopyLedger
from tests.torture.ledger import TortureError

RECORDS: Final = 10
"""The most of a transaction."""
SESSION_MS: Final = 1000
STATIC_SESSION_MS: Final = 10_000
"""Longer than any round: librdkafka may take a member that had no answer for a session for another's, and gives up."""
TRANSACTION_MS: Final = 300_000
"""Longer than any transaction on a busy machine: a copier whose transaction times out is fenced."""
_DEBUG: Final = {"COPIER_DEBUG": "cgrp,eos,fetch,protocol,topic"}
"""librdkafka's contexts that tell why it fetches from where; the environment may name others."""


@dataclass(frozen=True)
class CopierProgram:
    """A copier with one client library.

    Attributes:
        command: builds it if need be, and returns how it is started.
        ends_when_fenced: or it takes its transactional id back.
        can_be_static: whether it takes an instance id.
        looks_up_offsets: whether it may begin in a group without committed offsets. librdkafka gives records twice when
            it is revoked a partition whose first offset it is looking up (`tests.clients.test_librdkafka`).
    """

    name: str
    command: Callable[[], Sequence[str]]
    ends_when_fenced: bool
    can_be_static: bool
    looks_up_offsets: bool


def librdkafka() -> CopierProgram:
    """confluent-kafka, with its librdkafka."""
    command = [sys.executable, "-m", "tests.torture.copier"]
    return CopierProgram(
        "librdkafka", lambda: command, ends_when_fenced=True, can_be_static=True, looks_up_offsets=False
    )


def java() -> CopierProgram:
    """Kafka's own client; it needs a JDK and Maven."""
    return CopierProgram(
        "java",
        partial(client_command, "Copier", "3.9.1"),
        ends_when_fenced=False,
        can_be_static=False,
        looks_up_offsets=True,
    )


PROGRAMS: Final = {program.name: program for program in (librdkafka(), java())}


@dataclass(frozen=True)
class Errand:
    """The task of a copier, in the order of its arguments."""

    bootstrap: str
    group: str
    source: str
    target: str
    transactional_id: str
    doomed_percent: int = 0
    seed: int = 0
    instance_id: str | None = None

    def arguments(self) -> list[str]:
        """Of a copier's command line."""
        session_ms = SESSION_MS if self.instance_id is None else STATIC_SESSION_MS
        numbers = (RECORDS, session_ms, TRANSACTION_MS, self.doomed_percent, self.seed)
        names = [self.bootstrap, self.group, self.source, self.target, self.transactional_id]
        return [*names, *map(str, numbers), *([] if self.instance_id is None else [self.instance_id])]


class CopierProcess:
    """One copier. Its events are appended to `log`, and what it was promised goes to the ledgers.

    What its client says, in thousands of lines, is appended to `log` with the suffix `.debug`.
    """

    def __init__(self, program: CopierProgram, errand: Errand, log: Path, ledgers: Sequence[CopyLedger]) -> None:
        self.program = program
        self.log = log
        self.counts: dict[str, int] = {}
        self._ledgers = ledgers
        self._changed = threading.Condition()
        self._killed = False
        command = [*program.command(), *errand.arguments()]
        with log.open("ab") as events, log.with_suffix(".debug").open("ab") as stderr:
            for each in (events, stderr):
                each.write(f"== {errand}\n".encode())
                each.flush()
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=_DEBUG | environment()
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, event: str) -> None:
        """Until it has said that. `TortureError` if it ends before, or takes too long."""
        with self._changed:
            self._changed.wait_for(lambda: event in self.counts or not self._reader.is_alive(), PATIENCE_S)
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

    def is_displaced(self) -> bool:
        """Whether it has ended because it is not the static member that the group knows. `TortureError` if by itself.

        A new static member that comes in the middle of a rebalance is written down when that is through. If the broker
        is killed before, it knows the old one again, as Kafka does.
        """
        status = self._child.poll()
        if status == DISPLACED:
            self._close()
        elif status is not None and not self._killed:
            why = "it was fenced, though no other client took its place" if status == FENCED else f"status {status}"
            raise TortureError(f"a copier has ended: {why}; see {self.log}")
        return status == DISPLACED

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
        self._reader.join(PATIENCE_S)
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self.log.open("ab") as log:
                log.write(b"%.3f %b" % (time.time(), line))
            event: dict[str, Any] = json.loads(line)
            for _, partition, _, behind in event.get("ranges", ()):
                self._ledgers[partition].promise(behind)
            with self._changed:
                self.counts[event["event"]] = self.counts.get(event["event"], 0) + 1
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
