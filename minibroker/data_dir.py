"""The lock that keeps a second broker off a data directory.

The file has the name of Kafka's. The lock is one of `flock`, which also holds between two brokers of one process; the
JVM's is a POSIX record lock, which does not.
"""

import fcntl
import os
from typing import Final

LOCK_FILE: Final = ".lock"


class DataDirInUseError(OSError):
    """Another broker, in this process or another one, uses the directory; two would overwrite each other's records."""


class DataDirLock:
    """Holds the directory, which is made if need be, until `release` or the end of the process.

    DataDirInUseError when someone else holds it, OSError when it cannot be made or written.
    """

    def __init__(self, data_dir: str) -> None:
        os.makedirs(data_dir, exist_ok=True)
        path = os.path.join(data_dir, LOCK_FILE)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise DataDirInUseError(f"{data_dir} is in use by another broker ({path} is locked)") from None

    def release(self) -> None:
        """Let others in; releasing twice does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
