"""The gzip format (RFC 1952), with zlib from the standard library.

Like Java's `GZIPInputStream`, the reader accepts several consecutive members and ignores bytes after the last one.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from minibroker_protocol.records.codecs import (
    CHUNK_SIZE,
    compress_chunks,
    malformed_error,
    too_large_error,
    truncated_error,
)

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
"""Minimum number of remaining bytes for which Java looks for another member."""
_INPUT_CHUNK_SIZE: Final = 64 * 1024
"""Bytes passed to zlib at a time. zlib copies input after the end of a member, so a small size saves copying."""


def compress_in_chunks(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """Yield one compressed member in chunks."""
    return compress_chunks(zlib.compressobj(level, wbits=_GZIP_WBITS), data)


def decompress_in_chunks(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """Yield the data of all members in chunks."""
    view = memoryview(data)
    check_header(view)
    position, size = _find_deflated_data(view, 0), 0
    while True:
        member = zlib.decompressobj(-zlib.MAX_WBITS)
        checksum, start = 0, size
        while not member.eof:
            if position >= len(view):
                raise truncated_error("gzip", len(view))
            unread: bytes | memoryview = view[position : position + _INPUT_CHUNK_SIZE]
            position += len(unread)
            has_more = True
            while has_more:
                # Allow one more byte than the limit to detect data that exceeds it. zlib treats 0 as "no limit".
                limit = min(max_size - size + 1, CHUNK_SIZE)
                try:
                    chunk = member.decompress(unread, limit)
                except zlib.error as error:
                    raise malformed_error("gzip", error) from None
                size += len(chunk)
                if size > max_size:
                    raise too_large_error("gzip", max_size)
                checksum = zlib.crc32(chunk, checksum)
                yield chunk
                unread = member.unconsumed_tail
                # After a full chunk, zlib can hold more decompressed data even if all input was read.
                has_more = len(chunk) == limit and not member.eof
        position -= len(member.unused_data)
        if len(view) - position < _TRAILER.size:
            raise truncated_error("gzip", len(view))
        if _TRAILER.unpack_from(view, position) != (checksum, (size - start) & 0xFFFF_FFFF):
            raise malformed_error("gzip", "Corrupt GZIP trailer")
        position += _TRAILER.size
        if len(view) - position < _SMALLEST_MEMBER:
            return
        try:
            position = _find_deflated_data(view, position)
        except (ValueError, IndexError):
            return  # Like Java, ignore bytes after a member that are not another member.


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Check the header of the first member.

    Raises:
        DecompressionError: Java rejects this header.
    """
    try:
        _find_deflated_data(memoryview(data), 0)
    except ValueError as error:
        raise malformed_error("gzip", error) from None
    except IndexError:
        raise truncated_error("gzip", len(data)) from None


def _find_deflated_data(view: memoryview, start: int) -> int:
    """Return the position of a member's deflated data, after the same checks as Java's `GZIPInputStream`.

    Raises:
        ValueError: there is no valid header at `start`.
        IndexError: the header is truncated.
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
