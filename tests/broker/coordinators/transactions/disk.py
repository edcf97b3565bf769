"""A disk that refuses to write into some logs."""

import errno
from collections.abc import Callable

import pytest

from minibroker_storage.segment import LogSegment


class Disk:
    """Which partition directories it refuses to write to, by their names; `attempts` counts the refusals."""

    def __init__(self, write: Callable[[LogSegment], None]) -> None:
        self.write = write
        self.refused: set[str] = set()
        self.attempts = 0

    def commit(self, segment: LogSegment) -> None:
        """The replacement of a segment's commit."""
        if segment.log.path.split("/")[-2] in self.refused:
            self.attempts += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.write(segment)


def install(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Put a disk under all logs; it refuses nothing yet."""
    made = Disk(LogSegment.commit)

    def commit(segment: LogSegment) -> None:
        made.commit(segment)

    monkeypatch.setattr(LogSegment, "commit", commit)
    return made
