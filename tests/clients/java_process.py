"""A Java program that runs beside a test and tells events, one JSON object a line, until its standard input ends."""

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from tests.clients.contract import TIMEOUT

Event: TypeAlias = Mapping[str, Any]


class JavaProcess:
    """The program that `command` starts; as a context manager it is killed at the end if it still runs."""

    def __init__(self, command: Sequence[str]) -> None:
        self.events: list[Event] = []
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it; __exit__ closes it
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.wait()
        self._reader.join(TIMEOUT)
        for stream in (self._child.stdin, self._child.stdout, self._stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """End it with SIGKILL: it gets no chance to leave its group."""
        self._child.kill()

    def end(self) -> None:
        """End its standard input. AssertionError unless it closes in time with status 0."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            status = self._child.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end: {self.story()}") from None
        self._reader.join(TIMEOUT)
        assert status == 0, self.story()
        assert {"event": "closed"} in self.events, self.story()

    def story(self) -> str:
        """Its last events, and what it has complained of."""
        self._stderr.seek(0)
        return f"{self.events[-20:]}\n{self._stderr.read().decode(errors='replace')[-4_000:]}"

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.events.append(json.loads(line))
