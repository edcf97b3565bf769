"""Members of consumer groups: one process for each, a program per client library, driven by lines of JSON.

`member_programs.MEMBER_PROGRAMS` names them. A program gets one argument, the JSON of `MemberOptions`, and polls until
it is told to stop. It prints events, one JSON object a line, and takes commands, one a line, on stdin; the end of stdin
means close.

| event | with |
|---|---|
| ready | nothing; the client exists |
| assigned | partitions: all that it holds now, as [topic, partition], sorted |
| revoked, lost | partitions: those that it holds no more |
| record | topic, partition, offset, value (text) |
| committed | error: None, or a text |
| offsets | offsets: [topic, partition, offset or None, metadata or None] |
| error | text: whatever the client complains of |
| closed | nothing; the process ends with status 0 |

| command | with | answer |
|---|---|---|
| commit | offsets: [topic, partition, offset, metadata] | committed |
| offsets | partitions: [topic, partition], of which the broker is asked | offsets |
| close | nothing | closed; the member has left its group as its client does |
"""

import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import pytest

from tests.clients.contract import TIMEOUT

Strategy: TypeAlias = Literal["eager", "cooperative", "consumer"]
Feature: TypeAlias = Literal["eager", "cooperative", "consumer", "static", "metadata"]
Event: TypeAlias = Mapping[str, Any]
Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class MemberProgram:
    """The start of a member of one client library.

    `command` is called when the first member starts, in a test, and not before: it may build the program (once; it
    should be cached) and may skip the test when the toolchain is missing. The JSON of the options is appended to it.
    """

    name: str
    command: Callable[[], Sequence[str]]
    #: What this client cannot do, and the reason, which a skipped test repeats.
    cannot: Mapping[Feature, str] = field(default_factory=dict[Feature, str])
    env: Mapping[str, str] | None = None

    def require(self, *features: Feature) -> None:
        """Skip the test unless this client can do all of that."""
        for feature in features:
            if feature in self.cannot:
                pytest.skip(f"{self.name}: {self.cannot[feature]}")


@dataclass(frozen=True)
class MemberOptions:
    """The configuration of a member. Times are in ms; an unset offset starts at the earliest record.

    With the strategy "consumer" the coordinator assigns (KIP-848), and the two times of sessions are the broker's.
    """

    bootstrap: str
    group: str
    topics: Sequence[str]
    strategy: Strategy = "eager"
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 100
    instance_id: str | None = None
    auto_commit: bool = False
    auto_commit_interval_ms: int = 100
    client_id: str = "member"
    rack: str | None = None


class Delivered(NamedTuple):
    """A record that a member got."""

    topic: str
    partition: int
    offset: int
    value: str


class Member:
    """One member's process, and what it has told so far.

    All waiting is for events: `wait_for` looks again whenever any member of the same `changed` has said something.
    """

    def __init__(self, program: MemberProgram, options: MemberOptions, changed: threading.Condition) -> None:
        command = [*program.command(), json.dumps(asdict(options))]  # it may skip the test, so it comes first
        self.name = options.client_id
        self.program = program
        self.events: list[Event] = []
        self.holding: set[Partition] = set()
        self.records: list[Delivered] = []
        self._changed = changed
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it; close() closes it
        self._ended = False
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=None if program.env is None else dict(program.env),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        latest = [event for event in self.events if event["event"] != "record"][-20:]
        return f"{self.program.name} {self.name}: holds {sorted(self.holding)}; told {latest}; {self.complaints()}"

    def count(self, *names: str) -> int:
        """The number of its events with these names."""
        return sum(event["event"] in names for event in self.events)

    def since(self, start: int, *names: str) -> list[Event]:
        """The events of these names from the `start`-th event of all on."""
        return [event for event in self.events[start:] if event["event"] in names]

    def wait_for(self, condition: Callable[[], bool], description: str) -> None:
        """Wait until it is so. AssertionError if it takes too long, or if the member ends before."""
        wait_until(self._changed, condition, description, [self])

    def send(self, command: Mapping[str, Any]) -> None:
        """Give it a command."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()

    def commit(self, offsets: Iterable[tuple[str, int, int, str]]) -> str | None:
        """Commit (topic, partition, offset, metadata). The client's complaint, or None if it has none."""
        answer = self._ask({"do": "commit", "offsets": [list(each) for each in offsets]}, "committed")
        error: str | None = answer["error"]
        return error

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int | None, str | None]]:
        """The broker's committed offsets and metadata of these partitions."""
        answer = self._ask({"do": "offsets", "partitions": [list(each) for each in partitions]}, "offsets")
        return {(topic, partition): (offset, metadata) for topic, partition, offset, metadata in answer["offsets"]}

    def leave(self) -> None:
        """Close the client properly. AssertionError unless the process ends in time with status 0."""
        self._ended = True
        self.send({"do": "close"})
        try:
            status = self._child.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not close: {self!r}") from None
        self._reader.join(TIMEOUT)
        assert status == 0, f"status {status}: {self!r}"
        assert self.count("closed") == 1, self
        self.holding.clear()

    def kill(self) -> None:
        """End it with SIGKILL: it tells nobody."""
        self._ended = True
        self._child.kill()
        self._child.wait()
        self._reader.join(TIMEOUT)
        self.holding.clear()

    def pause(self) -> None:
        """Stop it with SIGSTOP: the system keeps its connections open, and it does nothing at all."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._child.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process if it still runs."""
        self.kill()
        for stream in (self._child.stdin, self._child.stdout, self._stderr):
            with suppress(OSError):  # what was not written before the process ended
                if stream is not None:
                    stream.close()

    def complaints(self) -> str:
        """The end of what it has written to stderr."""
        if self._stderr.closed:
            return ""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-4_000:]

    def is_gone(self) -> bool:
        """Whether its process has ended though nobody asked it to."""
        return not self._ended and self._child.poll() is not None

    def _ask(self, command: Mapping[str, Any], answer: str) -> Event:
        before = self.count(answer)
        self.send(command)
        self.wait_for(lambda: self.count(answer) > before, f"answer to {command}")
        return [event for event in self.events if event["event"] == answer][before]

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            event = json.loads(line)
            with self._changed:
                self._note(event)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _note(self, event: Event) -> None:
        self.events.append(event)
        match event["event"]:
            case "assigned":
                self.holding = {(topic, partition) for topic, partition in event["partitions"]}
            case "revoked" | "lost":
                self.holding -= {(topic, partition) for topic, partition in event["partitions"]}
            case "record":
                self.records.append(Delivered(event["topic"], event["partition"], event["offset"], event["value"]))
            case _:
                pass


def wait_until(
    changed: threading.Condition, condition: Callable[[], bool], description: str, members: Sequence[Member]
) -> None:
    """Wait until it is so, looking whenever one of the members has said something. AssertionError if it never is."""
    deadline = time.monotonic() + TIMEOUT
    with changed:
        while not condition():
            gone = [member for member in members if member.is_gone()]
            assert not gone, f"ended while waiting for {description}: {gone}"
            left = deadline - time.monotonic()
            assert left > 0, f"waited in vain for {description}: {members}"
            changed.wait(min(left, 1.0))
