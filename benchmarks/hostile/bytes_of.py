"""Frames and record batches that no client creates: fields of any size, and any counts and times."""

import struct
import time

import crc32c

from benchmarks.wire import varint

NONE, GZIP, ZSTD = 0, 1, 4


def frame(key: int, version: int, body: bytes) -> bytes:
    """Return a request with its length prefix. In a flexible version, `body` starts with the header's tagged fields."""
    header = struct.pack(">hhih", key, version, 1, 1) + b"x"
    return struct.pack(">i", len(header) + len(body)) + header + body


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def record(delta: int, value: bytes = b"", key: bytes | None = None, time_delta: int = 0) -> bytes:
    head = b"\x00" + varint(time_delta) + varint(delta)
    body = head + (b"\x01" if key is None else varint(len(key)) + key) + varint(len(value)) + value + b"\x00"
    return varint(len(body)) + body


def batch(packed: bytes, count: int, codec: int = NONE, *, later_ms: int = 0) -> bytes:
    """Return a batch of `count` records that starts now, and whose last record is `later_ms` after the first."""
    now = int(time.time() * 1000)
    covered = struct.pack(">hiqqqhii", codec, count - 1, now, now + later_ms, -1, -1, -1, count) + packed
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c.crc32c(covered)) + covered
