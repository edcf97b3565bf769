"""`minibroker trace` in a process of its own."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.clients.broker_process import BrokerProcess


class TraceProcess(BrokerProcess):
    """A proxy that writes JSON lines. `bootstrap` is where clients connect; leaving the block ends it with SIGTERM.

    AssertionError if it does not end with status 0, or has written to stderr.
    """

    verb: ClassVar = "trace"

    def __init__(self, to: str, directory: Path, options: Sequence[str] = (), *, listen: str = "127.0.0.1:0") -> None:
        self.lines = directory / "trace.json"
        super().__init__(directory, ["--to", to, "--json", str(self.lines), *options])
        self.bootstrap = listen
        self.stderr = directory / "trace.stderr"
        self.stderr.unlink(missing_ok=True)  # of an attempt at a port that was taken
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.terminate()
        else:
            self.end(signal.SIGTERM)

    def entries(self) -> list[dict[str, Any]]:
        """The exchanges that it has shown; all of them, once it has ended."""
        return [json.loads(line) for line in self.lines.read_text().splitlines()]

    def _places(self) -> list[str]:
        return ["--listen", self.bootstrap]

    def _note_places(self) -> None:
        self.bootstrap = self.words["listen"]
