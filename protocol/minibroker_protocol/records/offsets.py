"""Assign offsets: give the entries of a v0 or v1 message set their places in the log, in place.

An entry's offset field is outside its checksum, so nothing else changes. Plain messages have one each. A v1 wrapper
has the offset of the last message in it, whose own offsets count from 0 and stay (KIP-31). The exception is
a v0 wrapper, whose messages carry absolute offsets: it is compressed again (see `conversion`). A v2 batch gets its
base offset from the log itself, by `header.stamp`.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

_INT64: Final = Struct(">q")


def assign_offsets(entries: Iterable[tuple[bytearray | memoryview, int]], base_offset: int) -> int:
    """Number the records from `base_offset` on; the offset behind the last one.

    Each entry comes with the number of records in it, and must be writable.
    """
    next_offset = base_offset
    for entry, record_count in entries:
        next_offset += record_count
        _INT64.pack_into(entry, 0, next_offset - 1)
    return next_offset
