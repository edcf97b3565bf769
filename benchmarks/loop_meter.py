"""`python -m benchmarks.loop_meter FILE ARGUMENTS...` runs minibroker and notes how long its event loop is held.

Only the benchmark loads this; the broker itself measures nothing. FILE is 8 bytes that both processes map: the longest
turn of the event loop since the reader wrote 0 there, as a C double in seconds of CPU time of the loop's thread. A turn
is all that the loop calls between two looks at its sockets.
"""

import asyncio
import mmap
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLOW_NAMES = "BENCH_SLOW_NAMES"
"""An environment variable: the seconds that each host name lookup takes, as if the resolver did not answer."""


class Hold:
    """The longest turn in seconds of CPU time, in a file shared by two processes. A missing file is created."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._value = memoryview(self._map).cast("d")

    @property
    def longest(self) -> float:
        return self._value[0]

    def reset(self) -> None:
        self._value[0] = 0.0

    def note(self, seconds: float) -> None:
        self._value[0] = max(self._value[0], seconds)


def watch_loops(note: Callable[[float], None]) -> None:
    """Record each turn of an event loop of this process's main thread from now on."""
    base: Any = asyncio.BaseEventLoop
    run_once = base._run_once  # noqa: SLF001 - asyncio has no other place where a turn begins and ends
    clock = time.thread_time

    def timed(loop: Any) -> None:
        if threading.current_thread() is not threading.main_thread():  # The control plane has its own loop.
            run_once(loop)
            return
        begin = clock()
        run_once(loop)
        note(clock() - begin)

    base._run_once = timed  # noqa: SLF001 - as above


def slow_names(seconds: float) -> None:
    """Make each host name lookup take this long and fail."""
    look_up = socket.getaddrinfo

    def slow(host: Any, *arguments: Any, **named: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        if named.get("flags", 0) & socket.AI_NUMERICHOST:  # No resolver is asked.
            return look_up(host, *arguments, **named)
        if text and not text.replace(".", "").isdigit() and ":" not in text and text != "localhost":
            time.sleep(seconds)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return look_up(host, *arguments, **named)

    socket.getaddrinfo = slow


def main() -> int:
    from minibroker.cli.main import main as run  # noqa: PLC0415 - `Hold` is used where no broker runs

    path, *arguments = sys.argv[1:]
    watch_loops(Hold(Path(path)).note)
    if seconds := os.environ.get(SLOW_NAMES):
        slow_names(float(seconds))
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
