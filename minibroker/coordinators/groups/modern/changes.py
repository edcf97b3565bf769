"""Records of modern groups, as they are written.

A change is a key and its value, or None for a tombstone. Those of one step are written as one batch, and count when it
is in the log (`apply` of the group).
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.records import NewRecord
from minibroker_protocol.schema import schema_of

_VALUE_VERSION: Final = 0


class Change(NamedTuple):
    """A record."""

    key: Any
    value: Any | None

    def encode(self, now_ms: int) -> NewRecord:
        """The record as it is written."""
        value = None if self.value is None else encode_versioned(self.value, _VALUE_VERSION)
        return NewRecord(self.encode_key(), value, now_ms)

    def encode_key(self) -> bytes:
        """Its key as it is written; the version says what kind of record it is."""
        return encode_versioned(self.key, schema_of(self.key.__class__).versions.first)


def member_tombstones(kinds: Sequence[type[Any]], group_id: str, members: Collection[str]) -> list[list[Change]]:
    """The tombstones of members' records, by kind of key."""
    return [[Change(kind(group_id=group_id, member_id=each), None) for each in members] for kind in kinds]
