"""`minibroker serve` in a process of its own, which can be stopped, killed and started again."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.clients.contract import TIMEOUT

ROOT = Path(__file__).parents[2]


class BrokerProcess:
    """A broker on one port and one data directory, however often it is started.

    What it writes to stderr is an error: a warning, a traceback, a word that nobody asked for.

    Attributes:
        words: what it said when it was ready, by name.
    """

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self.data_dir = directory / "data"
        self.bootstrap = "127.0.0.1:0"  # the kernel picks the port at the first start; later it is the same one
        self._options = options
        self._stderr = directory / "stderr"
        self.words: dict[str, str] = {}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it says that clients can connect. AssertionError if it does not."""
        command = [sys.executable, "-W", "default", "-m", "minibroker", "serve"]
        command += ["--listen", self.bootstrap, "--data-dir", str(self.data_dir), *self._options]
        with self._stderr.open("ab") as stderr:
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment())
        self.words = words = dict(word.split("=", 1) for word in self._first_line().split() if "=" in word)
        self.bootstrap = words["bootstrap"]
        assert words["data-dir"] == str(self.data_dir)
        assert int(words["pid"]) == self._child.pid

    def terminate(self) -> None:
        """Stop it with SIGTERM. AssertionError unless it ends in time with status 0 and had nothing to complain of."""
        assert self._end(signal.SIGTERM) == 0, self.complaints()
        assert not self.complaints(), self.complaints()

    def kill(self) -> None:
        """End it with SIGKILL: it gets no chance to write or to close anything."""
        assert self._end(signal.SIGKILL) == -signal.SIGKILL, self.complaints()
        assert not self.complaints(), self.complaints()

    def kill_and_start(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End it if it still runs. AssertionError if it had something to complain of, then or before."""
        if self._child is not None:
            self._end(signal.SIGKILL)
        assert not self.complaints(), self.complaints()

    def complaints(self) -> str:
        """The stderr of all its lives."""
        return self._stderr.read_text()

    def _end(self, number: signal.Signals) -> int:
        assert self._child is not None
        child, self._child = self._child, None
        assert child.stdout is not None
        child.send_signal(number)
        try:
            return child.wait(TIMEOUT)
        finally:
            child.kill()
            child.wait()
            child.stdout.close()

    def _first_line(self) -> str:
        assert self._child is not None
        assert self._child.stdout is not None
        deadline = time.monotonic() + TIMEOUT
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                chunk = os.read(self._child.stdout.fileno(), 4096) if ready else b""
                if not chunk:
                    self._end(signal.SIGKILL)
                    raise AssertionError(f"the broker did not start: {line!r} {self.complaints()}")
                line += chunk
        return line.decode()


def environment() -> dict[str, str]:
    """The environment in which a child process finds the packages of this checkout, installed or not."""
    path = os.pathsep.join(str(ROOT / room) for room in (".", "protocol", "storage", "pipeline"))
    return {**os.environ, "PYTHONPATH": path}
