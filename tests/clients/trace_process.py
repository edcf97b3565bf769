"""`minibroker trace` in a process of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S


class TraceProcess:
    """A proxy that writes JSON lines. `bootstrap` is where clients connect; leaving the block ends it with SIGTERM.

    AssertionError if it does not end with status 0, or has written to stderr.
    """

    def __init__(self, to: str, directory: Path, options: Sequence[str] = (), *, listen: str = "127.0.0.1:0") -> None:
        self.lines = directory / "trace.json"
        self._stderr = directory / "trace.stderr"
        command = [sys.executable, "-W", "default", "-m", "minibroker", "trace", "--to", to, "--listen", listen]
        with self._stderr.open("wb") as stderr:
            self.child = subprocess.Popen(
                [*command, "--json", str(self.lines), *options],
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(),
                text=True,
            )
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line.startswith("minibroker trace ready: "):
            self.child.stdout.close()
            self.child.wait(PATIENCE_S)
            raise AssertionError(line + self.complaints())
        self.words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        self.bootstrap = self.words["listen"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = self.end()
        if kind is None:
            assert (status, self.complaints()) == (0, "")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; returns the status."""
        self.child.send_signal(number)
        try:
            return self.child.wait(PATIENCE_S)
        finally:
            self.child.kill()
            self.child.wait()
            assert self.child.stdout is not None
            self.child.stdout.close()

    def complaints(self) -> str:
        """The text that it has written to stderr."""
        return self._stderr.read_text()

    def entries(self) -> list[dict[str, Any]]:
        """The exchanges that it has shown; all of them, once it has ended."""
        return [json.loads(line) for line in self.lines.read_text().splitlines()]
