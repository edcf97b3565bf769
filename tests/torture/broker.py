"""The broker's process, as the tortures start and end it."""

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S

_READY: Final = re.compile(rb"minibroker ready: bootstrap=127\.0\.0\.1:(\d+) ")
# What a broker may say when it opens what a kill left behind.
_HARMLESS: Final = re.compile(
    r"\b(cut|removed|rebuil[dt]|recover(ed|ing|y))\b|has no members left|Too many open files|Error 24\b"
)
"""News of a recovery, that all members of a group are gone (they are killed, too), and a lack of descriptors.

Error 24 is how the loader of a new process puts that.
"""


class Broker:
    """`minibroker serve` on one data directory, however often it is started and ended.

    Args:
        directory: where its data and its stderr are.
        options: of `minibroker serve`.
        keeps_port: whether the port that the system picks at the first start stays the broker's, for clients that
            shall find it again.
        program: the module that is run, with what stands before `serve`.
    """

    def __init__(
        self,
        directory: Path,
        options: Sequence[str],
        *,
        keeps_port: bool = False,
        program: Sequence[str] = ("minibroker",),
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.stderr = directory / "stderr"
        self._command = [sys.executable, "-W", "default", "-m", *program, "serve"]
        self._command += ["--data-dir", str(self.data_dir), *options]
        self._keeps_port = keeps_port
        self._child: subprocess.Popen[bytes] | None = None
        self.address = ("", 0)

    def spawn(self) -> None:
        """Start it, and wait for nothing."""
        listen = f"127.0.0.1:{self.address[1] if self._keeps_port else 0}"
        command = [*self._command, "--listen", listen]
        with self.stderr.open("ab") as stderr:
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment())

    def await_ready(self) -> bool:
        """Wait until it takes connections; False when it ends instead."""
        child = self._running()
        assert child.stdout is not None
        line = child.stdout.readline()
        ready = _READY.match(line)
        if ready is None:
            return False
        self.address = ("127.0.0.1", int(ready[1]))
        return True

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        return self._running().pid

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, from any thread; one that has ended takes none."""
        self._running().send_signal(number)

    def wait(self, timeout: float = PATIENCE_S) -> int | None:
        """The exit status, negative for a signal; None if it still runs after `timeout` seconds."""
        child = self._running()
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        assert child.stdout is not None
        child.stdout.close()
        return status

    def close(self) -> None:
        """End it, whatever it does."""
        if self._child is not None:
            self._child.kill()
            self.wait()

    def complaints(self) -> list[str]:
        """The lines of stderr that are not about a recovery."""
        return complaints_in(self.stderr.read_text())

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._child is not None
        return self._child


def complaints_in(stderr: str) -> list[str]:
    """The lines that are not about a recovery."""
    return [line for line in stderr.splitlines() if not _HARMLESS.search(line)]
