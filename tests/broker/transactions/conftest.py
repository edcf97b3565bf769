"""A disk that refuses to write into some logs."""

import errno

import pytest

from minibroker_storage.segment import LogSegment


class Disk:
    """Which partition directories it refuses to write to, by their names; `attempts` counts the refusals."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.attempts = 0

    def commit(self, segment: LogSegment) -> None:
        """What a segment's commit does instead."""
        if segment.log.path.split("/")[-2] in self.refused:
            self.attempts += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.write(segment)

    def write(self, segment: LogSegment) -> None:
        """What a segment's commit did before."""
        raise NotImplementedError


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that refuses nothing yet."""
    made = Disk()
    made.write = LogSegment.commit  # type: ignore[method-assign]  # the disk that there is
    monkeypatch.setattr(LogSegment, "commit", lambda segment: made.commit(segment))
    return made
