"""A broker process with few descriptors, and access to the open ones. Linux only."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import Address, SocketClient, address_of
from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S

PING: Final = MetadataRequest(topics=[])


class LimitedBroker:
    """`minibroker serve` with a limit of descriptors. After its end, `stderr` has its log."""

    def __init__(self, child: subprocess.Popen[bytes], address: Address, stderr: Path) -> None:
        self.child = child
        self.address = address
        self.stderr = stderr

    def descriptors(self) -> list[str]:
        """Return the targets of its descriptors."""
        folder = f"/proc/{self.child.pid}/fd"
        targets: list[str] = []
        for name in os.listdir(folder):
            try:
                targets.append(os.readlink(f"{folder}/{name}"))
            except FileNotFoundError:
                continue
        return targets

    def sockets(self) -> int:
        """Return the number of its sockets."""
        return sum(descriptor.startswith("socket:") for descriptor in self.descriptors())

    def limit(self, count: int) -> None:
        """Set the limit of descriptors, even below the number of open ones."""
        hard = resource.prlimit(self.child.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(self.child.pid, resource.RLIMIT_NOFILE, (count, hard))

    def until(self, condition: Callable[[], bool]) -> None:
        """Send requests to the broker until a condition holds.

        Raises:
            AssertionError: It never does.
        """
        with SocketClient(self.address) as client:
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end:
                if condition():
                    return
                client.ask(PING, 12)
        raise AssertionError("it never came")


@contextmanager
def limited_broker(directory: Path, count: int, *options: str) -> Generator[LimitedBroker, None, None]:
    """Run a broker with a limit of `count` descriptors. It is stopped at the end, and must exit normally."""
    command = [sys.executable, "-m", "minibroker", "serve", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(directory / "data"), *options]
    limited = ["/bin/sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", *command]
    stderr = directory / "stderr"
    with stderr.open("wb") as log:
        child = subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=log, env=environment())
    assert child.stdout is not None
    try:
        ready = child.stdout.readline().decode()
        assert "bootstrap=" in ready, stderr.read_text()
        yield LimitedBroker(child, address_of(ready.partition("bootstrap=")[2].split()[0]), stderr)
        child.terminate()
        assert child.wait(PATIENCE_S) == 0, stderr.read_text()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
