"""Temporary directories, of brokers and snapshots: they go with those, else when the interpreter ends.

A process that forks shares the list with its children, which have to leave the directories of their parent alone.
A process that is killed leaves its directories behind. The next one removes them: each has a mark, a locked file with
the directory's own path, whose lock ends with the process. Directories without a mark, or of other users, stay.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from typing import Final

_ATTEMPTS: Final = 3
_PREFIX: Final = "minibroker-"
_MARK: Final = ".minibroker-temporary"

_owners: Final[dict[str, int]] = {}
"""Directory -> the id of the process that has made it."""
_marks: Final[dict[str, int]] = {}
"""Directory -> the descriptor of its mark."""
_looked_in: Final[set[str]] = set()
"""Folders in which this process has looked for directories of killed processes."""


def make(kind: str = "") -> str:
    """Make a directory where the system keeps such. OSError."""
    folder = tempfile.gettempdir()
    if folder not in _looked_in:
        _looked_in.add(folder)
        threading.Thread(target=_remove_abandoned, args=(folder,), daemon=True).start()
    path = tempfile.mkdtemp(prefix=_PREFIX + kind)
    _mark(path)
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
    shutil.rmtree(path, ignore_errors=True)
    if not os.path.exists(path):
        del _owners[path]
        os.close(_marks.pop(path))


def _mark(path: str) -> None:
    """Put the mark into a directory. It gets its name once it is locked, so that nobody else can lock it first."""
    mark = os.open(f"{path}/{_MARK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(mark, fcntl.LOCK_EX)
    os.write(mark, os.fsencode(path))
    os.rename(f"{path}/{_MARK}.new", f"{path}/{_MARK}")
    _marks[path] = mark


def _remove_abandoned(folder: str) -> None:
    """Remove the directories that killed processes of this user have left in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                is_ours = entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
                if is_ours and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    """Remove a directory whose mark nobody has locked. OSError for one without a mark, or whose owner lives."""
    mark = os.open(f"{path}/{_MARK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.read(mark, os.stat(mark).st_size) == os.fsencode(path):  # not the copy of a mark, in a user's directory
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(mark)


def _remove_rest() -> None:
    """Remove what was not stopped. Its broker may be at work until the very end, and add files meanwhile."""
    for path in list(_owners):
        for _ in range(_ATTEMPTS):
            if os.path.exists(path):
                remove(path)
