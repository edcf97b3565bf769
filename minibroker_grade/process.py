"""The broker process started by --start, which can be killed and restarted on the same port and directory."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from types import FrameType
from typing import Final

from minibroker_grade.wire import Address, answers_api_versions

_PAUSE_S: Final = 0.05
_ANSWER_S: Final = 5.0
START_LIMIT_S: Final = 120.0
_END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
"""The signals that end the grader, which first stops the broker it started."""


class BrokerProcess:
    """A broker in its own process group.

    Args:
        command: A command line, split as in a shell. {port} and {dir} are replaced by the port and the directory.
        address: The address of the broker.
        directory: The data directory of the broker.
    """

    def __init__(self, command: str, address: Address, directory: str) -> None:
        """Parse the command without starting the broker.

        Raises:
            ValueError: The command does not contain {port}.
        """
        if "{port}" not in command:
            raise ValueError(f"--start {command!r} has no {{port}}")
        self.address = address
        self.directory = directory
        self._words = [
            word.replace("{port}", str(address[1])).replace("{dir}", directory) for word in shlex.split(command)
        ]
        self._child: subprocess.Popen[bytes] | None = None
        self._is_forking = False
        self._is_leaving = False
        self._end_signal = 0

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Start the broker, and stop it at the end of the block. A signal ends the block as well.

        Raises:
            ValueError: The command cannot be executed, or the broker ended or did not answer.
            SystemExit: SIGINT, SIGTERM or SIGHUP arrived. A second signal kills the broker with SIGKILL.
        """
        in_main = threading.current_thread() is threading.main_thread()  # Only the main thread can set signal handlers.
        before = {number: signal.signal(number, self._on_signal) for number in _END_SIGNALS} if in_main else {}
        try:
            self.start()
            yield
        finally:
            self._is_leaving = True
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Start the broker and wait until it answers ApiVersions.

        Raises:
            ValueError: The command cannot be executed, or the broker ended or did not answer.
        """
        self._is_forking = True
        try:
            self._child = subprocess.Popen(  # noqa: S603 - the command that the user gave for this
                self._words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise ValueError(f"--start: {self._words[0]}: {error.strerror}") from None
        finally:
            self._is_forking = False
        if self._end_signal:
            raise SystemExit(128 + self._end_signal)
        end = time.monotonic() + START_LIMIT_S
        while not answers_api_versions(self.address, _ANSWER_S):
            if self._child.poll() is not None:
                raise ValueError(f"--start: the broker has ended with status {self._child.returncode}")
            if time.monotonic() > end:
                self.kill()
                raise ValueError(f"--start: the broker has not answered for {START_LIMIT_S:.0f} seconds")
            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """Stop the broker with SIGTERM, or with SIGKILL if it does not exit in time."""
        self._end_process(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self._end_process(signal.SIGKILL)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        is_repeated = self._is_leaving or self._end_signal
        self._end_signal = number
        if is_repeated:
            self._send_signal(signal.SIGKILL)
        # Do not raise during the fork: start() raises SystemExit once it has the child's id.
        elif not self._is_forking:
            raise SystemExit(128 + number)

    def _end_process(self, number: signal.Signals) -> None:
        if self._child is None:
            return
        deadline = time.monotonic() + START_LIMIT_S
        self._send_signal(number)
        # A start script can exit before the broker that it runs, so wait for the whole process group.
        while self._child.poll() is None or self._send_signal(0):
            if time.monotonic() > deadline:
                self._send_signal(signal.SIGKILL)
                self._child.wait()
                break
            time.sleep(_PAUSE_S)
        # Clear the child only now, because a signal can interrupt the wait, and the handler needs the child.
        self._child = None

    def _send_signal(self, number: int) -> bool:
        """Send a signal to the process group. Return False if the group has no processes left."""
        if self._child is None:
            return False
        try:
            os.killpg(self._child.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS denies signals to groups of exited processes.
            return False
        return True


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
