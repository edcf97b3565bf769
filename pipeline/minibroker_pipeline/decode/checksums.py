"""Checksums of log entries: CRC-32C of v2 batches, CRC-32 of messages of v0 and v1."""

from binascii import crc32
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from minibroker_protocol.records.header import CRC_COVERS_FROM, MAGIC_AT, MAGIC_V2, crc32c

_CRC32: Final = 0xEDB88320
_CRC32C: Final = 0x82F63B78
_NAMES: Final = ("position", "size", "crc", "magic")


def wrong_crcs(view: memoryview, headers: NDArray[Any]) -> list[int]:
    """The lines of `headers` (see `HEADER_DTYPE`) whose entry in `view` has another checksum than its bytes."""
    wrong: list[int] = []
    columns = (headers[name].tolist() for name in _NAMES)
    for line, (position, size, crc, magic) in enumerate(zip(*columns, strict=True)):
        entry = view[position : position + size]
        computed = crc32c(entry[CRC_COVERS_FROM:]) if magic == MAGIC_V2 else crc32(entry[MAGIC_AT:])
        if computed != crc:
            wrong.append(line)
    return wrong


def crc_tables() -> NDArray[np.int64]:
    """The tables with which the kernel takes eight bytes at a time: eight of 256 for CRC-32, then eight for CRC-32C."""
    tables = np.zeros((16, 256), np.int64)
    for first, polynomial in ((0, _CRC32), (8, _CRC32C)):
        row = np.arange(256)
        for _ in range(8):
            row = (row >> 1) ^ np.where(row & 1, polynomial, 0)
        tables[first] = row
        for index in range(first + 1, first + 8):
            before = tables[index - 1]
            tables[index] = (before >> 8) ^ row[before & 0xFF]
    return tables
