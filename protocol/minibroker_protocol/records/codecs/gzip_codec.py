"""gzip (RFC 1952), by the standard library's zlib.

Like Java's `GZIPInputStream`, the reader takes several members in a row and ignores what follows the last of them.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from minibroker_protocol.records.codecs import STEP_SIZE, cut_short, in_pieces, malformed, too_large

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_MEMBER_MAGIC: Final = b"\x1f\x8b\x08"
_FLAGS_AT: Final = 3
_CHECKSUM_FLAG: Final = 2
_EXTRA_FLAG: Final = 4
_NAME_FLAG: Final = 8
_COMMENT_FLAG: Final = 16
_HEADER_SIZE: Final = 10
_TRAILER: Final = Struct("<II")
_SMALLEST_MEMBER: Final = 19
"""Java looks for another member only if so many bytes are left."""
_PIECE: Final = 64 * 1024
"""Bytes given to zlib at a time. It copies what it was given behind a member's end, so less for it to copy."""


def compressed(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """Return one member in pieces."""
    return in_pieces(zlib.compressobj(level, wbits=_GZIP_WBITS), data)


def decompressed(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """Return the data of all members in pieces."""
    view = memoryview(data)
    check_header(view)
    position, size = _deflated_at(view, 0), 0
    while True:
        member = zlib.decompressobj(-zlib.MAX_WBITS)
        checksum, start = 0, size
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
                checksum = zlib.crc32(part, checksum)
                yield part
                waiting = member.unconsumed_tail
                has_more = len(part) == limit and not member.eof  # zlib may hold plain data back
        position -= len(member.unused_data)
        if len(view) - position < _TRAILER.size:
            raise cut_short("gzip", len(view))
        if _TRAILER.unpack_from(view, position) != (checksum, (size - start) & 0xFFFF_FFFF):
            raise malformed("gzip", "Corrupt GZIP trailer")
        position += _TRAILER.size
        if len(view) - position < _SMALLEST_MEMBER:
            return
        try:
            position = _deflated_at(view, position)
        except (ValueError, IndexError):
            return  # As in Java, bytes behind a member that are not another one do not count.


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Raise for a member whose header Java refuses."""
    try:
        _deflated_at(memoryview(data), 0)
    except ValueError as error:
        raise malformed("gzip", error) from None
    except IndexError:
        raise cut_short("gzip", len(data)) from None


def _deflated_at(view: memoryview, start: int) -> int:
    """Return where the deflated data of the member at `start` begins, by the checks of Java's `GZIPInputStream`.

    Raises:
        ValueError: This is no header.
        IndexError: The header is cut short.
    """
    position = start + _HEADER_SIZE
    _ = view[position - 1]
    flags = view[start + _FLAGS_AT]
    if bytes(view[start : start + len(_MEMBER_MAGIC)]) != _MEMBER_MAGIC:
        raise ValueError("Not in GZIP format")
    if flags & _EXTRA_FLAG:
        position += 2 + (view[position] | view[position + 1] << 8)
    for flag in (_NAME_FLAG, _COMMENT_FLAG):
        if flags & flag:
            while view[position]:
                position += 1
            position += 1
    if flags & _CHECKSUM_FLAG:
        stored = view[position] | view[position + 1] << 8
        if stored != zlib.crc32(view[start:position]) & 0xFFFF:
            raise ValueError("Corrupt GZIP header")
        position += 2
    return position
