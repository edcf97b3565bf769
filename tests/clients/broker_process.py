"""`minibroker serve` in a process of its own, which can be stopped, killed and started again."""

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from tests.patience import PATIENCE_S
from tests.programs import module_command

ROOT: Final = Path(__file__).parents[2]


class BrokerProcess:
    """A broker on one port and one data directory, however often it is started.

    What it writes to stderr is a complaint: a warning, a traceback, a word that nobody asked for.

    Args:
        directory: where its data and its stderr are.
        options: of `minibroker serve`.
        program: the module that is run, with what comes before the verb.

    Attributes:
        bootstrap: where it listens. The kernel picks the port at the first start; later it is the same one.
        words: what it printed when it was ready, by name.
        harmless: an expression for the lines of stderr that are no complaints.
    """

    verb: ClassVar = "serve"
    harmless: ClassVar[re.Pattern[str] | None] = None

    def __init__(
        self, directory: Path, options: Sequence[str] = (), *, program: Sequence[str] = ("minibroker",)
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data_dir = directory / "data"
        self.stderr = directory / "stderr"
        self.bootstrap = "127.0.0.1:0"
        self.words: dict[str, str] = {}
        self._command = [*module_command(program[0], "-W", "default"), *program[1:], self.verb, *options]
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first broker."""
        host, _, port = self.bootstrap.partition(",")[0].rpartition(":")
        return host, int(port)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._running().pid

    def start(self) -> None:
        """Start it and wait until clients can connect. AssertionError if it does not get so far."""
        self.spawn()
        if (line := self.ready_line()) is not None:
            self.end()
            raise AssertionError(f"it did not start: {line} {self.stderr.read_text()[-4000:]}")

    def spawn(self) -> None:
        """Start it, and wait for nothing."""
        with self.stderr.open("ab") as stderr:
            self._child = subprocess.Popen(
                [*self._command, *self._places()], stdout=subprocess.PIPE, stderr=stderr, env=environment()
            )

    def ready_line(self) -> str | None:
        """Wait for the line that tells where it listens; returns what came instead if it has ended or hangs."""
        stdout = self._running().stdout
        assert stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                chunk = os.read(stdout.fileno(), 4096) if ready else b""
                if not chunk:
                    return line.decode()
                line += chunk
        if b" ready: " not in line:
            return line.decode()
        self.words = dict(word.split("=", 1) for word in line.decode().split() if "=" in word)
        self._note_places()
        return None

    def send_signal(self, number: signal.Signals) -> None:
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

    def end(self, number: signal.Signals = signal.SIGKILL) -> int | None:
        """End it if it was started; returns the exit status, or None if the signal did not end it."""
        if self._child is None:
            return None
        self.send_signal(number)
        status = self.wait()
        if status is None:
            self.send_signal(signal.SIGKILL)
            self.wait()
        return status

    def terminate(self) -> None:
        """Stop it with SIGTERM. AssertionError unless it ends in time with status 0 and without a complaint."""
        status = self.end(signal.SIGTERM)
        assert (status, self.complaints()) == (0, "")

    def kill(self) -> None:
        """End it with SIGKILL: it gets no chance to write or to close anything. AssertionError for a complaint."""
        status = self.end()
        assert (status, self.complaints()) == (-signal.SIGKILL, "")

    def kill_and_start(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End it if it still runs. AssertionError if it had something to complain of, then or before."""
        self.end()
        assert not self.complaints(), self.complaints()

    def complaints(self) -> str:
        """The lines on the stderr of all its lives that are not harmless."""
        lines = self.stderr.read_text().splitlines() if self.stderr.exists() else []
        return "\n".join(line for line in lines if self.harmless is None or not self.harmless.search(line))

    def _places(self) -> list[str]:
        """The options for where it listens, and where its data are."""
        return ["--listen", self.bootstrap, "--data-dir", str(self.data_dir)]

    def _note_places(self) -> None:
        self.bootstrap = self.words["bootstrap"]
        assert self.words["data-dir"] == str(self.data_dir)
        assert int(self.words["pid"]) == self.pid

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._child is not None
        return self._child


def environment() -> dict[str, str]:
    """The environment in which a child process finds the packages of this checkout, installed or not."""
    path = os.pathsep.join(str(ROOT / room) for room in (".", "protocol", "storage", "pipeline"))
    return {**os.environ, "PYTHONPATH": path}
