"""LZ4 in its frame format, with the correct header checksum that message formats v1 and v2 ask for (KIP-57).

Written as Kafka's `Lz4BlockOutputStream` does: independent blocks of 64 KB, no content size, no checksums. Read with
any of them. Like Kafka's `Lz4BlockInputStream`, the reader takes one frame and ignores what follows it.
"""

from importlib import import_module
from typing import Any, Final

from minibroker_protocol.records.codecs import cut_short, malformed, too_large

_frame: Any = import_module("lz4.frame")
_BLOCK_SIZE: Final[int] = _frame.BLOCKSIZE_MAX64KB
_PIECE: Final = 4 * 1024 * 1024
"""Bytes asked for at a time: the library prepares room for all that it is asked for."""


def compress(data: bytes | bytearray | memoryview) -> bytes:
    """One frame."""
    frame: bytes = _frame.compress(data, block_size=_BLOCK_SIZE, block_linked=False, store_size=False)
    return frame


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """The first frame's data."""
    frame = _frame.LZ4FrameDecompressor()
    try:
        out: bytes = frame.decompress(data, max_length=min(max_size + 1, _PIECE))
        while not frame.needs_input and len(out) <= max_size:
            out += frame.decompress(b"", max_length=min(max_size + 1 - len(out), _PIECE))
    except RuntimeError as error:
        raise malformed("lz4", error) from None
    if len(out) > max_size:
        raise too_large("lz4", max_size)
    if not frame.eof:
        raise cut_short("lz4", len(data))
    return out
