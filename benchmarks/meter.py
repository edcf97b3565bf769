"""CPU time and memory of another process, and a way to keep the machine's own memory management out of measurements."""

import sys
import tempfile
import time

import psutil


class Meter:
    """Reads the CPU time and memory of one process.

    CPU seconds are the user and system time of all its threads, including threads that have ended. Linux provides the
    process's CPU clock in nanoseconds to any process that has its pid. On other systems, psutil's figure is used (10 ms
    steps).
    """

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        # clock_getcpuclockid(3) in one line: the clock id of a process is its inverted pid, followed by the clock's
        # type in the low bits: 2 is scheduler time.
        self._clock = (~pid << 3) | 2 if sys.platform == "linux" else None

    def cpu(self) -> float:
        if self._clock is not None:
            return time.clock_gettime(self._clock)
        times = self._process.cpu_times()
        return times.user + times.system

    def rss(self) -> int:
        """The resident set size in bytes."""
        return self._process.memory_info().rss


def settle_page_cache(directory: str, size: int) -> None:
    """Write a file of twice `size` bytes and delete it, so that enough free pages are available for a log of that size.

    A virtual machine returns pages to the host that were free for a while. Getting a page back takes several
    microseconds of system time, several times the broker's own cost, and would be charged to the broker that writes
    first.
    """
    # Like the batches of a log, not a power of two, so that the kernel takes pages in the same mixture of sizes.
    block = b"x" * 1_000_000
    with tempfile.TemporaryFile(dir=directory, buffering=0) as ballast:
        for _ in range(2 * size // len(block) + 100):
            ballast.write(block)
