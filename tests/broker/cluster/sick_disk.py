"""A disk whose fsyncs fail."""

import errno
import os
import stat

import pytest


class SickDisk:
    """A disk whose fsyncs fail while it is sick, as on Linux.

    After a failed fsync the next one of the same inode succeeds, although its bytes are lost.

    Attributes:
        is_sick: Whether fsyncs fail.
        lost: The inodes whose bytes are lost.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_sick = False
        self.lost: set[int] = set()
        self._spares_files = False
        self._kept: list[int] = []  # Open descriptors, so no new file gets the number of a lost inode.
        self._real = os.fsync
        monkeypatch.setattr(os, "fsync", self._fsync)

    def spare_files(self) -> None:
        """Make only fsyncs of directories fail."""
        self._spares_files = True

    def holds(self, path: str) -> bool:
        """Return whether the file's bytes can be on disk."""
        return os.stat(path).st_ino not in self.lost

    def close(self) -> None:
        """Close the lost files."""
        while self._kept:
            os.close(self._kept.pop())

    def _fsync(self, fd: int) -> None:
        status = os.fstat(fd)
        is_hit = self.is_sick and (stat.S_ISDIR(status.st_mode) or not self._spares_files)
        if is_hit and status.st_ino not in self.lost:
            self.lost.add(status.st_ino)
            self._kept.append(os.dup(fd))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._real(fd)
