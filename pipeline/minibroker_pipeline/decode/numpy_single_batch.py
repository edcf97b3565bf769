"""Record positions in one v2 batch, for `numpy_engine` when too few batches are left to read side by side.

A record's length is all that has to be known to find the next one; its fields are then read with those of all others.
"""

from typing import Final

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.varint import decode_varint

_CONTINUES: Final = 0x80
_SEVEN_BITS: Final = 0x7F


def record_starts(data: bytes, count: int) -> list[int] | None:
    """Of the `count` records that fill `data`; None when the lengths in them say otherwise."""
    starts: list[int] = []
    append = starts.append
    at = 0
    try:
        for _ in range(count):
            append(at)
            raw = data[at]
            at += 1
            if raw >= _CONTINUES:
                more = data[at]
                if more < _CONTINUES:
                    raw = raw & _SEVEN_BITS | more << 7
                    at += 1
                else:
                    length, at = decode_varint(data, at - 1)
                    raw = length << 1 if length >= 0 else 1
            if raw & 1:
                return None  # a negative length
            at += raw >> 1
    except (DecodeError, IndexError):
        return None
    return starts if at == len(data) else None
