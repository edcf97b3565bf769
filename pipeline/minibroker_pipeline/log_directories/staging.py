"""Owners of staging directories: the next job that writes removes those that a killed job has left.

The owner is the process that the job ends with: Spark's JVM, which commits and aborts in processes of their own, or the
process itself. Where /proc does not tell of processes, and on other machines, nothing is known and nothing is removed.
"""

import contextlib
import json
import os
import shutil
import socket
from typing import Any, Final

from minibroker_storage.data_directory.boot_id import boot_id

OWNER: Final = "owner.json"
_STARTED: Final = 19
_PARENT: Final = 1
_JVM: Final = "java"


def claim(staging: str) -> None:
    """Write down whose the directory is. `OSError`."""
    pid = os.getpid()
    parent = pid
    while (process := _process(parent)) is not None:
        if process[0] == _JVM:
            pid = parent
            break
        parent = int(process[1][_PARENT])
    with open(f"{staging}/{OWNER}", "w", encoding="utf-8") as file:
        json.dump(_identity(pid), file)


def remove_abandoned(directory: str, *, begins: str, ends: str) -> None:
    """Remove the staging directories with such names whose owner has died. What cannot be removed stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(begins) and name.endswith(ends) and _is_abandoned(f"{directory}/{name}"):
                shutil.rmtree(f"{directory}/{name}", ignore_errors=True)


def _is_abandoned(staging: str) -> bool:
    try:
        with open(f"{staging}/{OWNER}", encoding="utf-8") as file:
            owner: Any = json.load(file)
        if owner["host"] != socket.gethostname() or owner["started"] is None:
            return False
        if owner["boot"] != boot_id():
            return True
        # Containers may share a host's name, but see no processes of each other.
        return bool(owner["namespace"] == _namespace() and owner != _identity(owner["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _identity(pid: int) -> dict[str, Any]:
    """What tells a process from all others; `started` is None when there is none, or none is known of."""
    process = _process(pid)
    started = process[1][_STARTED] if process is not None else None
    return {
        "host": socket.gethostname(),
        "boot": boot_id(),
        "namespace": _namespace(),
        "pid": pid,
        "started": started,
    }


def _process(pid: int) -> tuple[str, list[str]] | None:
    """A process's name, and the fields of its line in /proc that follow."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            line = file.read()
    except OSError:
        return None
    head, _, tail = line.rpartition(")")
    return head.partition("(")[2], tail.split()


def _namespace() -> str | None:
    """Within which pids mean something."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
