"""A program beside a test, which prints events, one JSON object a line, and takes lines on its standard input."""

import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S

Event: TypeAlias = Mapping[str, Any]


class LineProcess:
    """The program that `command` starts; leaving the block ends it if it still runs.

    Args:
        changed: what is notified of each event; processes may share it.
        stderr: a file for what it complains of; None for a temporary one.
        variables: of its environment, which others of that name there replace.
    """

    def __init__(
        self,
        command: Sequence[str],
        changed: threading.Condition | None = None,
        *,
        stderr: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.changed = changed or threading.Condition()
        # The process writes to it; close() closes it.
        self._stderr = tempfile.TemporaryFile() if stderr is None else stderr.open("a+b")  # noqa: SIM115 - as said
        self._ended = False
        self._answered = 0
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env={**(variables or {}), **environment()},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        latest = [event for event in self.events if event["event"] != "record"][-20:]
        if self._stderr.closed:
            return str(latest)
        self._stderr.seek(0)
        return f"{latest}\n{self._stderr.read().decode(errors='replace')[-4_000:]}"

    def count(self, *names: str) -> int:
        """The number of its events with these names."""
        return sum(event["event"] in names for event in self.events)

    def since(self, start: int, *names: str) -> list[Event]:
        """The events of these names from the `start`-th event of all on."""
        return [event for event in self.events[start:] if event["event"] in names]

    def send(self, command: Mapping[str, Any] | str) -> None:
        """Give it a command."""
        assert self._child.stdin is not None
        self._child.stdin.write((command if isinstance(command, str) else json.dumps(command)) + "\n")
        self._child.stdin.flush()

    def answer(self) -> Event:
        """Take the oldest event that has not been taken."""
        self.wait_for(lambda: len(self.events) > self._answered, "an answer")
        self._answered += 1
        return self.events[self._answered - 1]

    def wait_for(self, condition: Callable[[], bool], description: str) -> None:
        """Wait until the condition holds. AssertionError if it takes too long, or if the process ends before."""
        wait_until(self.changed, condition, description, [self])

    def end(self) -> None:
        """End its standard input. AssertionError unless it closes in time with status 0."""
        self._ended = True
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            status = self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end: {self!r}") from None
        self._reader.join(PATIENCE_S)
        assert (status, self.count("closed")) == (0, 1), self

    def kill(self) -> None:
        """End it with SIGKILL: it tells nobody."""
        self._ended = True
        self._child.kill()
        self._child.wait()
        self._reader.join(PATIENCE_S)

    def pause(self) -> None:
        """Stop it with SIGSTOP: the system keeps its connections open, and it does nothing at all."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue after `pause`."""
        self._child.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process if it still runs."""
        self.kill()
        for stream in (self._child.stdin, self._child.stdout, self._stderr):
            with suppress(OSError):  # what was not written before the process ended
                if stream is not None:
                    stream.close()

    def is_gone(self) -> bool:
        """Whether its process has ended though nobody asked it to, and all that it printed is read."""
        return not self._ended and self._child.poll() is not None and not self._reader.is_alive()

    def note(self, event: Event) -> None:
        """Take in an event that it has printed."""
        self.events.append(event)

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self.changed:
                self.note(json.loads(line))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()


def wait_until(
    changed: threading.Condition, condition: Callable[[], bool], description: str, processes: Sequence[LineProcess]
) -> None:
    """Wait until the condition holds, looking whenever one of the processes has said something.

    AssertionError if it never does, or if a process ends before.
    """
    deadline = time.monotonic() + PATIENCE_S
    with changed:
        while not condition():
            gone = [process for process in processes if process.is_gone()]
            assert not gone, f"ended while waiting for {description}: {gone}"
            left = deadline - time.monotonic()
            assert left > 0, f"waited in vain for {description}: {processes}"
            changed.wait(min(left, 1.0))
