"""gzip (RFC 1952), by the standard library's zlib.

Like Java's `GZIPInputStream`, the reader takes several members in a row and ignores what follows the last of them.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from minibroker_protocol.records.codecs import STEP_SIZE, cut_short, malformed, too_large

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_MEMBER_MAGIC: Final = b"\x1f\x8b\x08"
_PIECE: Final = 64 * 1024
"""Bytes given to zlib at a time. It copies what it was given behind a member's end, so less for it to copy."""


def compress(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """One member."""
    return zlib.compress(data, level, wbits=_GZIP_WBITS)


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """All members, joined."""
    return b"".join(decompressed(data, max_size))


def compressed(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """The bytes of `compress` in pieces."""
    member = zlib.compressobj(level, wbits=_GZIP_WBITS)
    view = memoryview(data)
    for start in range(0, len(view), STEP_SIZE):
        yield member.compress(view[start : start + STEP_SIZE])
    yield member.flush()


def decompressed(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """All members in pieces."""
    view = memoryview(data)
    position = size = 0
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            if position >= len(view):
                raise cut_short("gzip", len(view))
            waiting: bytes | memoryview = view[position : position + _PIECE]
            position += len(waiting)
            has_more = True
            while has_more:
                # One byte more than allowed: that byte reveals a bomb, and zlib reads 0 as "no limit".
                limit = min(max_size - size + 1, STEP_SIZE)
                try:
                    part = member.decompress(waiting, limit)
                except zlib.error as error:
                    raise malformed("gzip", error) from None
                size += len(part)
                if size > max_size:
                    raise too_large("gzip", max_size)
                yield part
                waiting = member.unconsumed_tail
                has_more = len(part) == limit and not member.eof  # zlib may hold plain data back
        position -= len(member.unused_data)
        if bytes(view[position : position + len(_MEMBER_MAGIC)]) != _MEMBER_MAGIC:
            return
