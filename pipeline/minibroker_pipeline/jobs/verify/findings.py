"""Findings, and what can be done about each."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

_MOST_OF_A_KIND: Final = 20


class What(StrEnum):
    """The kind of a finding; the values stand in tables and JSON."""

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
    """Something in a file, or about it. `position` is a byte of the file.

    What is not damage is what a broker leaves or mends by itself.
    """

    path: str
    position: int | None
    what: What
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
    """Collects what is found in one file. Of each kind the first ones are kept, and the others counted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: list[Finding] = []
        self._counts: dict[tuple[What, bool], int] = {}

    def add(
        self, kind: What, position: int | None, message: str, remedy: str, *, is_damage: bool = True, path: str = ""
    ) -> None:
        """Note it; `path` is another file than the one that the others are of."""
        count = self._counts[kind, is_damage] = self._counts.get((kind, is_damage), 0) + 1
        if count <= _MOST_OF_A_KIND:
            self._kept.append(Finding(path or self._path, position, kind, message, remedy, is_damage))

    def __iter__(self) -> Iterator[Finding]:
        more = [
            Finding(self._path, None, kind, f"and {count - _MOST_OF_A_KIND:,} more of this kind", "as above", is_damage)
            for (kind, is_damage), count in self._counts.items()
            if count > _MOST_OF_A_KIND
        ]
        return iter(self._kept + more)
