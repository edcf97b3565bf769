"""Staging directories, in which a job prepares what it publishes, and their owners.

The next job that writes there removes those that a killed job has left. The owner is the process that the job ends
with: Spark's JVM, which commits and aborts in processes of their own, or the process itself. Without /proc, and on
other machines, nothing is known and nothing is removed.
"""

import contextlib
import json
import os
import shutil
import socket
from typing import Any, Final

from minibroker_storage.data_directory import staged_write
from minibroker_storage.data_directory.clean_shutdown import boot_id
from minibroker_storage.data_directory.staged_write import NEW
from minibroker_storage.layout import DELETE_DIRECTORY_SUFFIX

OWNER: Final = "owner.json"
_STAGING_SUFFIX: Final = ".minibroker-write"
_TASKS: Final = "tasks"
_STARTED: Final = 19
_PARENT: Final = 1
_JVM: Final = "java"


def new_staging(target: str) -> str:
    """Make the directory in which a job makes ready what it will publish; returns its path. `OSError`.

    Within the target if that is there, which may be a file system of its own, else beside it. What jobs have left there
    that were killed goes.
    """
    parent, name = os.path.split(target)
    begins = f".{name[:200]}."
    _remove_abandoned(parent, begins=begins, ends=_STAGING_SUFFIX)
    if os.path.isdir(target):
        staging = staged_write.staging_name(target)
        _remove_abandoned(target, begins=staged_write.STAGING_PREFIX, ends=DELETE_DIRECTORY_SUFFIX)
    else:
        os.makedirs(parent, exist_ok=True)
        staging = f"{parent}/{begins}{os.urandom(8).hex()}{_STAGING_SUFFIX}"
    os.mkdir(staging)
    _claim(staging)
    os.mkdir(f"{staging}/{NEW}")
    os.mkdir(f"{staging}/{_TASKS}")
    return staging


def remove_staging(staging: str) -> None:
    """Remove what a job has made ready, if it is there. A folder that resists stays; a broker removes it later.

    Under another name, so that tasks that still run have nothing to write to any more.
    """
    head, dot, tail = staging.rpartition(".")
    gone = f"{head}{dot}gone.{tail}"
    with contextlib.suppress(OSError):
        os.rename(staging, gone)
    shutil.rmtree(gone, ignore_errors=True)


def staged_partition(staging: str, topic: str, partition: int) -> str:
    """The directory, made now if need be, whose content will be the partition's; a path."""
    directory = f"{staging}/{NEW}/{topic}-{partition}"
    os.makedirs(directory, exist_ok=True)
    return directory


def staged_task(staging: str) -> str:
    """A new directory for what an attempt of a task writes, which goes with the staging; a path.

    `FileNotFoundError` when it is gone already.
    """
    directory = f"{staging}/{_TASKS}/{os.urandom(12).hex()}"
    os.mkdir(directory)
    return directory


def is_staging(name: str) -> bool:
    """Whether a name in a data directory is a staging directory's."""
    return name.startswith(staged_write.STAGING_PREFIX) and name.endswith(DELETE_DIRECTORY_SUFFIX)


def _claim(staging: str) -> None:
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


def _remove_abandoned(directory: str, *, begins: str, ends: str) -> None:
    """Remove the staging directories with such names whose owner has died. A folder that resists stays."""
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
    """The identity of a process among all others; `started` is None when there is none, or none is known of."""
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
