"""gzip (RFC 1952), by the standard library's zlib.

Like Java's `GZIPInputStream`, the reader takes several members in a row and ignores what follows the last of them.
"""

import zlib
from typing import Final

from minibroker_protocol.records.codecs import cut_short, malformed, too_large

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_MEMBER_MAGIC: Final = b"\x1f\x8b\x08"
_PIECE: Final = 64 * 1024
"""Bytes given to zlib at a time. It copies what it was given behind a member's end, so less for it to copy."""


def compress(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """One member."""
    return zlib.compress(data, level, wbits=_GZIP_WBITS)


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """All members, joined."""
    view = memoryview(data)
    out = bytearray()
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            if position >= len(view):
                raise cut_short("gzip", len(view))
            piece = view[position : position + _PIECE]
            try:
                # One byte more than allowed: that byte tells a bomb, and zlib reads 0 as "no limit".
                out += member.decompress(piece, max_size - len(out) + 1)
            except zlib.error as error:
                raise malformed("gzip", error) from None
            if len(out) > max_size:
                raise too_large("gzip", max_size)
            position += len(piece)
        position -= len(member.unused_data)
        if bytes(view[position : position + len(_MEMBER_MAGIC)]) != _MEMBER_MAGIC:
            return bytes(out)
