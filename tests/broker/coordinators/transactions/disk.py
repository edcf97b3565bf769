"""A disk that rejects writes to some logs."""

import errno
from collections.abc import Callable

import pytest

from minibroker_storage.segment import LogSegment


class Disk:
    """A disk that rejects writes to some partition directories.

    Attributes:
        refused: The names of these directories.
        attempts: The number of rejected writes.
    """

    def __init__(self, write: Callable[[LogSegment], None]) -> None:
        self.write = write
        self.refused: set[str] = set()
        self.attempts = 0

    def commit(self, segment: LogSegment) -> None:
        """Replace the `commit` of a segment."""
        if segment.log.path.split("/")[-2] in self.refused:
            self.attempts += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.write(segment)


def install(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Put all logs on a disk that rejects no writes yet."""
    disk = Disk(LogSegment.commit)

    def commit(segment: LogSegment) -> None:
        disk.commit(segment)

    monkeypatch.setattr(LogSegment, "commit", commit)
    return disk
