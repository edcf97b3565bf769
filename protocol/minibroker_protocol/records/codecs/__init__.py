"""One module per compression codec, each loaded when its first batch arrives.

Each has `compressed(data, level) -> Iterator[bytes]` and `decompressed(data, max_size) -> Iterator[bytes]`. A piece
comes from or holds about `STEP_SIZE` bytes of plain data, and may be empty, so that a caller can serve other clients
between two pieces. Data that Kafka's decoder refuses raises `DecompressionError`. `check_header(data)` raises it for
what the first bytes show, in constant time.

The libraries are imported by name and typed `Any`: two of the three ship no type information.
"""

from collections.abc import Iterator
from typing import Any, Final

from minibroker_protocol.errors import DecompressedSizeError, DecompressionError

STEP_SIZE: Final = 1024 * 1024
"""Bytes of plain data that are packed or unpacked per step: at most 40 ms under gzip's default level."""


def in_pieces(compressor: Any, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    """Yield the output of a compressor, such as zlib's, for one step of the data after another."""
    view = memoryview(data)
    for start in range(0, len(view), STEP_SIZE):
        yield compressor.compress(view[start : start + STEP_SIZE])
    yield compressor.flush()


def too_large(codec: str, max_size: int) -> DecompressedSizeError:
    """The error for data that would grow beyond the limit."""
    return DecompressedSizeError(f"{codec}: more than {max_size} bytes when decompressed")


def cut_short(codec: str, size: int) -> DecompressionError:
    """The error for compressed data that ends too early."""
    return DecompressionError(f"{codec}: the compressed data is cut short after {size} bytes")


def malformed(codec: str, reason: object) -> DecompressionError:
    """The error for compressed data that the codec cannot read."""
    return DecompressionError(f"{codec}: malformed compressed data: {reason}")
