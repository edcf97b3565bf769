"""Temporary directories, of brokers and snapshots: they go with those, else when the interpreter ends.

A process that forks shares the list with its children, which have to leave the directories of their parent alone.
Nothing can be removed for a process that is killed.
"""

import atexit
import os
from typing import Final

_ATTEMPTS: Final = 3

_owners: Final[dict[str, int]] = {}
"""Directory -> the id of the process that has made it."""


def make(prefix: str = "minibroker-") -> str:
    """A new directory where the system keeps such. OSError."""
    import tempfile  # noqa: PLC0415 - it takes longer to load than a log does to open

    path = tempfile.mkdtemp(prefix=prefix)
    atexit.unregister(_remove_rest)  # once will do, but a child of multiprocessing begins with nothing registered
    atexit.register(_remove_rest)
    _owners[path] = os.getpid()
    return path


def is_temporary(path: str) -> bool:
    """Whether `make` has made this directory, in this process or its parent: nothing in it has to outlast a crash."""
    return path in _owners


def remove(path: str) -> None:
    """Remove a directory that `make` has made in this process, with all that is in it."""
    if _owners.get(path) != os.getpid():
        return
    import shutil  # noqa: PLC0415 - needed at the end only

    shutil.rmtree(path, ignore_errors=True)
    if not os.path.exists(path):
        del _owners[path]


def _remove_rest() -> None:
    """Remove what was not stopped. Its broker may be at work until the very end, and add files meanwhile."""
    for path in list(_owners):
        for _ in range(_ATTEMPTS):
            if os.path.exists(path):
                remove(path)
