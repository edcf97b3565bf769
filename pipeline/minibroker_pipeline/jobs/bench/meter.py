"""CPU seconds of processes and of all that they have started, also of what has ended since.

From `/proc`, in steps of its clock (10 ms). Where there is none, psutil serves if it is installed; it does not count
what has ended.
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_PROC = "/proc"
_PARENT, _USER, _LAST = 1, 11, 15
"""Fields of `/proc/PID/stat` behind the name; from `_USER` on user and system time, own and of children waited for."""


class _Process(NamedTuple):
    pid: int
    parent: int
    cpu: float


def cpu_seconds(roots: Iterable[int]) -> float | None:
    """User and system time of these processes and of those below them. None where that is unknown."""
    processes = {process.pid: process for process in _processes()}
    if not processes:
        return _with_psutil(roots)
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    total, seen, waiting = 0.0, set[int](), list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in processes and pid not in seen:
            seen.add(pid)
            total += processes[pid].cpu
            waiting += children.get(pid, [])
    return total


def _processes() -> Iterator[_Process]:
    if not os.path.isdir(f"{_PROC}/self"):
        return
    ticks = os.sysconf("SC_CLK_TCK")
    for name in os.listdir(_PROC):
        if not name.isdigit():
            continue
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # the name may hold blanks and brackets
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        yield _Process(int(name), int(fields[_PARENT]), sum(map(int, fields[_USER:_LAST])) / ticks)


def _with_psutil(roots: Iterable[int]) -> float | None:
    try:
        import psutil  # noqa: PLC0415 - for macOS; it is no dependency
    except ImportError:
        return None
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        root = psutil.Process(pid)
        found |= {process.pid: process for process in (root, *root.children(recursive=True))}
    return sum(sum(process.cpu_times()[:2]) for process in found.values())
