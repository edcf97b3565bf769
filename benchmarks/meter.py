"""CPU time and memory of a process, seen from outside."""

import sys
import time

import psutil


class Meter:
    """Reads one process. CPU seconds are user plus system time of all its threads, also of those that ended.

    Linux gives the process's CPU clock in nanoseconds to anyone who knows its pid; elsewhere psutil's figure (10 ms
    steps) serves.
    """

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        # clock_getcpuclockid(3) in one line: the clock id of a process is its inverted pid above the clock's type, 2
        # = scheduler time.
        self._clock = (~pid << 3) | 2 if sys.platform == "linux" else None

    def cpu(self) -> float:
        if self._clock is not None:
            return time.clock_gettime(self._clock)
        times = self._process.cpu_times()
        return times.user + times.system

    def rss(self) -> int:
        """Resident set size in bytes."""
        return self._process.memory_info().rss
