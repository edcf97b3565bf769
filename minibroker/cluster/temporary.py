"""Temporary directories of brokers and snapshots, removed with their owner or when the interpreter exits.

After a fork, the child inherits the list of directories, but it must not remove its parent's directories. A killed
process leaves its directories behind, and the next process removes them. To make this possible, each directory contains
a mark: a file with the directory's path that is locked until the process ends. Directories without a mark and
directories of other users are kept.
"""

import atexit
import contextlib
import shutil
import tempfile
import threading
from typing import Final

from minibroker_storage.portability import lock_exclusively, os

_ATTEMPTS: Final = 3
_PREFIX: Final = "minibroker-"
_MARK: Final = ".minibroker-temporary"

_made: Final[dict[str, tuple[int, int]]] = {}
"""Directory -> the id of the process that created it, and the descriptor of its mark."""
_searched_folders: Final[set[str]] = set()
"""Folders in which this process has looked for abandoned directories."""


def make(kind: str = "") -> str:
    """Create a directory in the system's folder for temporary files.

    Raises:
        OSError: The directory cannot be created.
    """
    folder = tempfile.gettempdir()
    if folder not in _searched_folders:
        _searched_folders.add(folder)
        threading.Thread(target=_remove_abandoned, args=(folder,), daemon=True).start()
    path = tempfile.mkdtemp(prefix=_PREFIX + kind)
    _made[path] = os.getpid(), _mark(path)
    # Register the handler exactly once per process. A child process of multiprocessing starts without exit handlers.
    atexit.unregister(_remove_remaining)
    atexit.register(_remove_remaining)
    return path


def is_temporary(path: str) -> bool:
    """Return whether `make` created this directory, in this process or its parent.

    The files in such a directory need not survive a crash.
    """
    return path in _made


def remove(path: str) -> None:
    """Remove a directory that `make` created in this process, with everything in it."""
    owner, mark = _made.get(path, (None, -1))
    if owner != os.getpid():
        return
    shutil.rmtree(path, ignore_errors=True)
    if not os.path.exists(path):
        del _made[path]
        os.close(mark)


def _mark(path: str) -> int:
    """Add the mark to a directory, and return its descriptor.

    It is locked before it gets its name, so that no other process can lock it first.
    """
    mark = os.open(f"{path}/{_MARK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    lock_exclusively(mark)
    os.write(mark, os.fsencode(path))
    os.rename(f"{path}/{_MARK}.new", f"{path}/{_MARK}")
    return mark


def _remove_abandoned(folder: str) -> None:
    """Remove from a folder the directories that killed processes of this user left behind."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                is_ours = entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
                if is_ours and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    """Remove a directory whose mark is not locked.

    Raises:
        OSError: The directory has no mark, or the process that owns the directory is running.
    """
    mark = os.open(f"{path}/{_MARK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        lock_exclusively(mark)
        # The mark contains its own path. A user's directory with a copied mark must not be removed.
        if os.read(mark, os.stat(mark).st_size) == os.fsencode(path):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(mark)


def _remove_remaining() -> None:
    """Remove the directories of brokers that were not stopped. Such a broker may still be running and adding files."""
    for path in list(_made):
        for _ in range(_ATTEMPTS):
            if os.path.exists(path):
                remove(path)
