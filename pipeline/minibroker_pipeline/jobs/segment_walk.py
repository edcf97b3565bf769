"""Walks over a segment, and returns arrays with the positions of its entries and of the fields of their records.

`decode` does the same before it copies values. Statistics and checks need no values.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import Damage, DecodeRequest
from minibroker_pipeline.decode.blocks import ENTRY, IS_BAD, RecordTable, record_groups
from minibroker_pipeline.decode.headers import (
    as_bytes,
    fault_of,
    find_damage,
    find_positions,
    offset_at,
    read_headers,
    stop_fault,
)
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.filesystem import OpenFile
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE
from minibroker_protocol.records.header import LENGTH_AT, LOG_OVERHEAD

WINDOW_BYTES: Final = 8 * 1024 * 1024
_GROUP_BYTES: Final = 8 * 1024 * 1024
_CHECKED: Final = DecodeRequest(verify_crc=True)
CUT_SHORT: Final = "an entry is cut short by the end of the file"
ZEROS: Final = "nothing but zeros up to the end of the file"


class Entries(NamedTuple):
    """Consecutive whole entries of a log file. Positions in `headers` are relative to `position` in the file."""

    position: int
    data: memoryview
    headers: NDArray[Any]


class BadBytes(NamedTuple):
    """Bytes of a log file that are not entries.

    If `reason` is `CUT_SHORT` or `ZEROS`, a log in use can end this way.
    """

    position: int
    size: int
    offset: int | None
    reason: str


class WalkedRecords(NamedTuple):
    """The records of some entries.

    `blocks[:, ENTRY]` has the index of each block's entry in the array of headers.
    """

    table: RecordTable
    blocks: NDArray[np.int64]


def read_entries(file: OpenFile, size: int, engine: RecordEngine) -> Iterator[Entries | BadBytes]:
    """Yield the first `size` bytes of a log file, a few megabytes at a time, as entries or as bad bytes.

    Raises:
        OSError: the file cannot be read.
    """
    position, window = 0, WINDOW_BYTES
    while position < size:
        unread = size - position
        data = memoryview(file.read_at(position, min(window, unread))).cast("B").toreadonly()
        # If fewer bytes were read than requested, another process has truncated the file, and nothing follows.
        unread = unread if len(data) == min(window, unread) else len(data)
        array = as_bytes(data)
        positions, entries_end = find_positions(array, 0, len(data), engine.chase)
        if len(positions):
            yield Entries(position, data[:entries_end], read_headers(array, positions))
            position, window = position + entries_end, WINDOW_BYTES
        elif len(data) < unread and (needed := _size_at(data)) > len(data):
            window = min(needed, unread)
        else:
            tail = data if len(data) == unread else memoryview(file.read_at(position, unread)).cast("B").toreadonly()
            invalid = _describe_bad_bytes(position, tail)
            yield invalid
            position, window = position + invalid.size, WINDOW_BYTES
            if invalid.size == len(tail):
                return


def _size_at(data: memoryview) -> int:
    """Return the size given by the header of the entry at the start of the data, or 0 if no entry begins there."""
    if len(data) >= LOG_OVERHEAD and stop_fault(data, 0) is not None:
        return 0
    return int.from_bytes(data[LENGTH_AT:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD


def _describe_bad_bytes(position: int, remainder: memoryview) -> BadBytes:
    """Describe the bytes at the start of a file's remainder, which do not form a whole entry."""
    if not np.frombuffer(remainder, np.uint8).any():
        return BadBytes(position, len(remainder), None, ZEROS)
    size, fault = find_damage(remainder, 0)
    return BadBytes(position, size, offset_at(remainder, 0), fault or CUT_SHORT)


def walk_records(
    entries: Entries, lines: NDArray[np.int64], engine: RecordEngine, damage: list[Damage]
) -> Iterator[WalkedRecords]:
    """Yield the records of the entries at these lines of `entries.headers`.

    An unreadable entry has no block, or a block with IS_BAD. It is added to `damage`, with its position in the
    file.
    """

    def refuse(header: Any, message: str) -> None:
        damage.append(damage_at(entries, header, message))

    for data, blocks in record_groups(
        entries.data, entries.headers, lines, refuse, group_bytes=_GROUP_BYTES, max_size=MAX_DECOMPRESSED_SIZE
    ):
        table = engine.walk(data, blocks, -(2**63), 2**63 - 1)
        bad = blocks[blocks[:, IS_BAD] != 0, ENTRY].tolist()
        damage += (describe_entry(entries, entries.headers[line]) for line in bad)
        yield WalkedRecords(table, blocks)


def describe_entry(entries: Entries, header: Any) -> Damage:
    """Describe the fault of an entry."""
    message = fault_of(entries.data, int(header["position"]), int(header["size"]), _CHECKED)
    return damage_at(entries, header, message)


def damage_at(entries: Entries, header: Any, message: str) -> Damage:
    """Return the damage to an entry, with its position in the file."""
    return Damage(entries.position + int(header["position"]), int(header["base_offset"]), int(header["size"]), message)
