"""The Snappy format, written with xerial's framing and read with or without it.

The Java client also writes this framing (`SnappyOutputStream` of snappy-java). It is a header (eight magic bytes, int32
version, int32 compatible version), followed by raw Snappy blocks that are each preceded by their int32 size. Streams
can be concatenated, so another header can follow a block. librdkafka and the Go clients send one raw block without
framing.
"""

from collections.abc import Iterator
from importlib import import_module
from struct import Struct
from typing import Any, Final

from minibroker_protocol.records.codecs import malformed_error, too_large_error, truncated_error

_snappy: Any = import_module("snappy")

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_MIN_VERSION: Final = 1
"""The minimum version in a header between two streams. snappy-java ignores the version in the first header."""
_MAGIC_AS_SIZE: Final = int.from_bytes(_MAGIC[:4], "big", signed=True)
_SIZE: Final = Struct(">i")
_BLOCK_SIZE: Final = 32 * 1024
_MAX_PREAMBLE: Final = 5
_MAX_GROWTH: Final = 64
"""No Snappy element expands to more than 64 bytes, whatever its size. A larger promised size is invalid."""


def compress_in_chunks(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:  # noqa: ARG001 - snappy has no levels
    """Yield a header, and one block for every 32 KB of data."""
    yield _HEADER
    view = memoryview(data)
    for start in range(0, len(view), _BLOCK_SIZE):
        block: bytes = _snappy.compress(view[start : start + _BLOCK_SIZE])
        yield _SIZE.pack(len(block))
        yield block


def decompress_in_chunks(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """Yield the data of each block. Data without framing is one chunk, because the library decodes it in one call."""
    view = memoryview(data)
    if len(view) < len(_HEADER) or bytes(view[: len(_MAGIC)]) != _MAGIC:
        yield _decompress_block(view, 0, max_size)
        return
    position = len(_HEADER)
    previous_bytes = 0
    while position < len(view):
        if len(view) - position < _SIZE.size:
            return  # Like snappy-java, ignore a truncated size at the end.
        (size,) = _SIZE.unpack_from(view, position)
        if size == _MAGIC_AS_SIZE:
            if len(view) - position < len(_HEADER):
                raise truncated_error("snappy", len(view))
            (version,) = _SIZE.unpack_from(view, position + len(_MAGIC))
            if version < _MIN_VERSION:
                raise malformed_error("snappy", f"Compressed with an incompatible codec version {version}")
            position += len(_HEADER)
            continue
        position += _SIZE.size
        if size < 0:
            raise malformed_error("snappy", f"a block of {size} bytes")
        if size > len(view) - position:
            raise truncated_error("snappy", len(view))
        block = _decompress_block(view[position : position + size], previous_bytes, max_size)
        previous_bytes += len(block)
        yield block
        position += size


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Check the size at the start of raw data.

    Raises:
        DecompressionError: the first bytes are not a valid size.
    """
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        _read_promised_size(memoryview(data))


def _decompress_block(block: memoryview, previous_bytes: int, max_size: int) -> bytes:
    """Return the data of one raw block. `previous_bytes` is the size of the data from earlier blocks."""
    size = _read_promised_size(block)
    if size > max_size - previous_bytes:
        raise too_large_error("snappy", max_size)
    if size > len(block) * _MAX_GROWTH:
        raise malformed_error("snappy", f"{len(block)} bytes that promise {size}")
    try:
        out: bytes = _snappy.uncompress(block)
    except _snappy.UncompressError as error:
        raise malformed_error("snappy", error.__cause__) from None
    return out


def _read_promised_size(block: memoryview) -> int:
    """Return the uncompressed size at the start of a raw block, an unsigned varint."""
    size = 0
    for index, byte in enumerate(block[:_MAX_PREAMBLE]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return size
    raise malformed_error("snappy", "no uncompressed size")
