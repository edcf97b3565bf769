"""One module per compression codec. A module is imported when the first batch with its codec is read or written.

Each module has `compress_in_chunks(data, level)` and `decompress_in_chunks(data, max_size)`, which return iterators of
bytes. A chunk corresponds to about `CHUNK_SIZE` bytes of plain data, so that a caller can serve other clients between
two chunks. It can be empty. `DecompressionError` is raised for data that Kafka's decoder rejects. `check_header(data)`
raises the same error if the first bytes are invalid, and takes constant time.

The libraries are imported by name and typed `Any`, because two of the three have no type information.
"""

from collections.abc import Iterator
from typing import Any, Final

from minibroker_protocol.errors import DecompressedSizeError, DecompressionError

CHUNK_SIZE: Final = 1024 * 1024
"""Bytes of plain data to compress or decompress per chunk: at most 40 ms with gzip's default level."""


def compress_chunks(compressor: Any, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    """Yield the output of a compressor, such as zlib's, for each `CHUNK_SIZE` bytes of the data."""
    view = memoryview(data)
    for start in range(0, len(view), CHUNK_SIZE):
        yield compressor.compress(view[start : start + CHUNK_SIZE])
    yield compressor.flush()


def too_large_error(codec: str, max_size: int) -> DecompressedSizeError:
    """Return the error for data that exceeds the limit when decompressed."""
    return DecompressedSizeError(f"{codec}: more than {max_size} bytes when decompressed")


def truncated_error(codec: str, size: int) -> DecompressionError:
    """Return the error for compressed data that is truncated."""
    return DecompressionError(f"{codec}: the compressed data is cut short after {size} bytes")


def malformed_error(codec: str, reason: object) -> DecompressionError:
    """Return the error for compressed data that the codec cannot read."""
    return DecompressionError(f"{codec}: malformed compressed data: {reason}")
