"""A minibroker in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final, Self

_TIMEOUT: Final = 60
_STEP: Final = 0.02


class BrokerError(Exception):
    """The broker did not start. Says what it has printed."""


class OwnBroker:
    """`minibroker serve` on a port that the system picks, for a `with` statement."""

    def __init__(self, scratch: str, topics: Sequence[str] = ()) -> None:
        """`scratch` is a directory of the caller's; `topics` are as `--topic` takes them."""
        self.data_dir = os.path.join(scratch, "data")
        self.bootstrap = ""
        self._ready = os.path.join(scratch, "ready")
        self._output = os.path.join(scratch, "broker.log")
        self._command = [sys.executable, "-m", "minibroker", "serve", "--listen", "127.0.0.1:0"]
        self._command += ["--data-dir", self.data_dir, "--ready-file", self._ready]
        self._command += [part for topic in topics for part in ("--topic", topic)]
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid if self._child else -1

    def __enter__(self) -> Self:
        """`BrokerError`."""
        with open(self._output, "wb") as output:
            self._child = subprocess.Popen(self._command, stdout=output, stderr=output)  # noqa: S603 - our own command
        deadline = time.monotonic() + _TIMEOUT
        while not os.path.exists(self._ready):
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                with open(self._output, encoding="utf-8", errors="replace") as file:
                    raise BrokerError(f"the broker did not start: {file.read().strip() or 'it said nothing'}")
            time.sleep(_STEP)
        with open(self._ready, encoding="utf-8") as file:
            self.bootstrap = file.read().strip()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
