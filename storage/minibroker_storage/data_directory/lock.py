"""Locks a data directory, so that a broker or another writer owns it exclusively.

`.lock` is locked twice: with `flock`, as minibroker has always done, and with a POSIX record lock, as the JVM does.
This keeps Kafka and minibroker out of each other's directories. The kernel drops a process's POSIX lock as soon as the
process closes any descriptor of the file. All code in the process must therefore acquire the lock through this module,
which never reopens a file it has locked. No other code may open `.lock`.
"""

import errno
import sys
import threading
from typing import Final

from minibroker_storage.data_directory.names import LOCK_FILE
from minibroker_storage.portability import fcntl, lock_exclusively, os

_LOCKED_ERRNOS: Final = frozenset({errno.EAGAIN, errno.EACCES})


class DirectoryLockedError(OSError):
    """The lock is held by another owner, in this process or another one.

    Attributes:
        path: the path of the lock file.
        is_locked_by_java: whether the owner is Apache Kafka, which takes only the POSIX lock.
    """

    def __init__(self, path: str, *, is_locked_by_java: bool = False) -> None:
        super().__init__(f"{path} is locked{' as Java does it' if is_locked_by_java else ''}")
        self.path = path
        self.is_locked_by_java = is_locked_by_java


class DirectoryLock:
    """The lock of one data directory, acquired by the constructor and held until `release` or the end of the process.

    Attributes:
        fd: the open descriptor of the lock file, or -1 after the release. The owner can read and write the file through
            it.

    Raises:
        DirectoryLockedError: another owner holds the lock.
        OSError: the lock file cannot be opened.
    """

    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, LOCK_FILE)
        with _guard:
            if _is_held_here(path):
                raise DirectoryLockedError(path)
            self.fd = _open_locked(path)
            status = os.fstat(self.fd)
            _held_locks[self.fd] = os.getpid(), status.st_dev, status.st_ino

    def release(self) -> None:
        """Release the lock. A second call has no effect."""
        with _guard:
            if self.fd >= 0:
                _held_locks.pop(self.fd, None)
                os.close(self.fd)
                self.fd = -1


_guard: Final = threading.Lock()
_held_locks: Final[dict[int, tuple[int, int, int]]] = {}
"""Process id, device and inode of each lock file held by this process, by descriptor."""


def _open_locked(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    is_flocked = False
    try:
        lock_exclusively(fd)
        is_flocked = True
        # On macOS, the two kinds of locks exclude each other, so flock() also keeps out users of lockf().
        if fcntl is not None and sys.platform != "darwin":
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if error.errno in _LOCKED_ERRNOS:
            raise DirectoryLockedError(path, is_locked_by_java=is_flocked) from None
        raise
    return fd


def _is_held_here(path: str) -> bool:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return (os.getpid(), status.st_dev, status.st_ino) in _held_locks.values()
