"""Copiers as processes, which can be killed, or stopped and woken as zombies."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.java_programs import client_command
from tests.clients.line_process import Event, LineProcess
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


class CopierProcess(LineProcess):
    """One copier. Its events are appended to `log`, and what it was promised goes to the ledgers.

    What its client says, in thousands of lines, is appended to `log` with the suffix `.debug`.
    """

    def __init__(self, program: CopierProgram, errand: Errand, log: Path, ledgers: Sequence[CopyLedger]) -> None:
        self.log = log
        self._ledgers = ledgers
        debug = log.with_suffix(".debug")
        for each in (log, debug):
            with each.open("a") as file:
                file.write(f"== {errand}\n")
        super().__init__([*program.command(), *errand.arguments()], stderr=debug, variables=_DEBUG)

    def __repr__(self) -> str:
        return f"a copier; see {self.log}"

    def wait_until_ready(self) -> None:
        """Wait until it copies. AssertionError if it ends before, or takes too long."""
        self.wait_for(lambda: self.count("ready") > 0, "a copier that is ready")

    def wait(self, timeout: float) -> int | None:
        """The exit status; None if it still runs."""
        try:
            status = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self.close()
        return status

    def is_displaced(self) -> bool:
        """Whether it has ended because it is not the static member that the group knows. `TortureError` if by itself.

        A new static member that comes in the middle of a rebalance is written down when that is through. If the broker
        is killed before, it knows the old one again, as Kafka does.
        """
        status = self._child.poll()
        if status is not None and status != DISPLACED and not self._ended:
            why = "it was fenced, though no other client took its place" if status == FENCED else f"status {status}"
            raise TortureError(f"a copier has ended: {why}; see {self.log}")
        return status == DISPLACED

    def note(self, event: Event) -> None:
        """Append an event to the log, and take the promises in it."""
        with self.log.open("a") as log:
            log.write(f"{time.time():.3f} {json.dumps(event)}\n")
        for _, partition, _, behind in event.get("ranges", ()):
            self._ledgers[partition].promise(behind)
        super().note(event)
