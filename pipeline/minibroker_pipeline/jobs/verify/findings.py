"""The findings of `verify`, with a remedy for each."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

_MAX_PER_KIND: Final = 20


class Kind(StrEnum):
    """The kind of a finding. The values are the names used in tables and JSON."""

    CHECKSUM = "checksum"
    ENTRY = "entry"
    TORN = "torn"
    RECORDS = "records"
    OFFSETS = "offsets"
    GAP = "gap"
    LOST = "lost"
    TIMESTAMP = "timestamp"
    EPOCH = "leader epoch"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    MISSING = "missing"
    NAME = "name"
    SMALL_FILE = "small file"


class Finding(NamedTuple):
    """A finding about a file. `position` is the position of a byte in the file.

    A finding is not damage if brokers leave such a state in normal operation, or repair it themselves.
    """

    path: str
    position: int | None
    what: Kind
    message: str
    remedy: str
    is_damage: bool = True


RESTORE: Final = (
    "take the segment from another replica or a backup; a reader with mode=permissive leaves out what is damaged"
)
REBUILD: Final = "with the broker stopped, delete this file: a broker makes it again when it opens the log"
NOTHING: Final = "nothing: a broker that opens the log cuts it off"
RENAME: Final = "give it its right name back, or move it out of the directory"


class Findings:
    """Collects the findings about one file.

    Only the first findings of each kind are kept. The others are counted.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: list[Finding] = []
        self._counts: dict[tuple[Kind, bool], int] = {}

    def add(
        self, kind: Kind, position: int | None, message: str, remedy: str, *, is_damage: bool = True, path: str = ""
    ) -> None:
        """Add a finding. `path` is needed only for a finding about a different file."""
        count = self._counts[kind, is_damage] = self._counts.get((kind, is_damage), 0) + 1
        if count <= _MAX_PER_KIND:
            self._kept.append(Finding(path or self._path, position, kind, message, remedy, is_damage))

    def __iter__(self) -> Iterator[Finding]:
        summaries = [
            Finding(self._path, None, kind, f"and {count - _MAX_PER_KIND:,} more of this kind", "as above", is_damage)
            for (kind, is_damage), count in self._counts.items()
            if count > _MAX_PER_KIND
        ]
        return iter(self._kept + summaries)
