"""The lock of a data directory: one owner in one process, whether a broker or a writer beside it.

`.lock` is locked twice: by `flock`, as minibroker always did, and by a POSIX record lock, as the JVM does, so that a
Kafka and a minibroker keep off each other. A POSIX lock ends as soon as its process closes any descriptor of the file.
So every part of the process takes the lock here: this module never opens a file that it has locked. No other code may
open `.lock`.
"""

import errno
import fcntl
import os
import sys
import threading
from typing import Final

from minibroker_storage.data_directory.names import LOCK_FILE

_TAKEN: Final = frozenset({errno.EAGAIN, errno.EACCES})


class DirectoryLockedError(OSError):
    """Another owner, in this process or another one, holds the lock.

    Attributes:
        path: of the lock file.
        is_as_java: only the POSIX lock is taken, as an Apache Kafka does it.
    """

    def __init__(self, path: str, *, is_as_java: bool = False) -> None:
        super().__init__(f"{path} is locked{' as Java does it' if is_as_java else ''}")
        self.path = path
        self.is_as_java = is_as_java


class DirectoryLock:
    """The lock of one data directory, taken by the constructor and held until `release` or the end of the process.

    DirectoryLockedError, OSError.

    Attributes:
        fd: descriptor of the lock file, which may be read and written; -1 once it is released.
    """

    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, LOCK_FILE)
        with _guard:
            if _is_held_here(path):
                raise DirectoryLockedError(path)
            self.fd = _open_locked(path)
            status = os.fstat(self.fd)
            _held[self.fd] = os.getpid(), status.st_dev, status.st_ino

    def release(self) -> None:
        """Let others in; releasing twice does nothing."""
        with _guard:
            if self.fd >= 0:
                _held.pop(self.fd, None)
                os.close(self.fd)
                self.fd = -1


_guard: Final = threading.Lock()
_held: Final[dict[int, tuple[int, int, int]]] = {}
"""Descriptor -> process, device and inode of each lock file that this process holds."""


def _open_locked(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    is_flocked = False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_flocked = True
        if sys.platform != "darwin":  # there, the two kinds of locks exclude each other: the first one does
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if error.errno in _TAKEN:
            raise DirectoryLockedError(path, is_as_java=is_flocked) from None
        raise
    return fd


def _is_held_here(path: str) -> bool:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return (os.getpid(), status.st_dev, status.st_ino) in _held.values()
