"""The broker that --start names: started, killed, and started again on the same port and directory."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import time
from typing import Final

from minibroker.grade.wire import Address, BrokenAnswerError, Wire
from minibroker_protocol.messages.api_versions import ApiVersionsRequest

_PAUSE_S: Final = 0.05
START_LIMIT_S: Final = 120.0


class BrokerProcess:
    """A broker in a process group of its own.

    Args:
        command: words for a shell-like line; {port} and {dir} stand for the port and the directory.
    """

    def __init__(self, command: str, address: Address, directory: str) -> None:
        """ValueError for a command that names no port."""
        if "{port}" not in command:
            raise ValueError(f"--start {command!r} has no {{port}}")
        self.address = address
        self.directory = directory
        self._words = [
            word.replace("{port}", str(address[1])).replace("{dir}", directory) for word in shlex.split(command)
        ]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers ApiVersions. OSError; ValueError when it does not get so far."""
        self._child = subprocess.Popen(  # noqa: S603 - the command that the user gave for this
            self._words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + START_LIMIT_S
        while not self._answers():
            if self._child.poll() is not None:
                raise ValueError(f"--start: the broker has ended with status {self._child.returncode}")
            if time.monotonic() > end:
                self.kill()
                raise ValueError(f"--start: the broker has not answered for {START_LIMIT_S:.0f} seconds")
            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL where that does not help."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            _signal_group(child.pid, number)
        try:
            child.wait(START_LIMIT_S)
        except subprocess.TimeoutExpired:
            _signal_group(child.pid, signal.SIGKILL)
            child.wait()

    def _answers(self) -> bool:
        try:
            wire = Wire(self.address, [], time.monotonic() + 5)
        except OSError:
            return False
        try:
            wire.send(ApiVersionsRequest(), 0)
            wire.receive()
        except BrokenAnswerError:
            return False
        finally:
            wire.close()
        return True


def _signal_group(number: int, signal_number: signal.Signals) -> None:
    os.killpg(number, signal_number)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
