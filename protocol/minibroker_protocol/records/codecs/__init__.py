"""One module per compression codec, each loaded when its first batch arrives.

Each has `compress(data, level) -> bytes` and `decompress(data, max_size) -> bytes`, and the same as pieces of at most
`STEP_SIZE` bytes of plain data each, perhaps none: `decompressed(data, max_size) -> Iterator[bytes]` and
`compressed(data, level) -> Iterator[bytes]`. A caller may serve others between two pieces. Data that Kafka's decoder
refuses is `DecompressionError`. `check_header(data)` raises it for what the first bytes show, in constant time.

The libraries are imported by name and typed `Any`: two of the three ship no type information.
"""

from typing import Final

from minibroker_protocol.errors import DecompressedSizeError, DecompressionError

STEP_SIZE: Final = 256 * 1024
"""Bytes of plain data that a step packs or unpacks: at most some milliseconds under gzip."""


def too_large(codec: str, max_size: int) -> DecompressedSizeError:
    """The error for data that would grow beyond the limit."""
    return DecompressedSizeError(f"{codec}: more than {max_size} bytes when decompressed")


def cut_short(codec: str, size: int) -> DecompressionError:
    """The error for compressed data that ends too early."""
    return DecompressionError(f"{codec}: the compressed data is cut short after {size} bytes")


def malformed(codec: str, reason: object) -> DecompressionError:
    """The error for compressed data that the codec cannot read."""
    return DecompressionError(f"{codec}: malformed compressed data: {reason}")
