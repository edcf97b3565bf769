"""LZ4 in its frame format, with the correct header checksum that message formats v1 and v2 ask for (KIP-57).

Written as Kafka's `Lz4BlockOutputStream` does: independent blocks of 64 KB, no content size, no checksums. Read with
any of them. Like Kafka's `Lz4BlockInputStream`, the reader takes one frame and ignores what follows it.
"""

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from minibroker_protocol.records.codecs import STEP_SIZE, cut_short, malformed, too_large

_frame: Any = import_module("lz4.frame")
_BLOCK_SIZE: Final[int] = _frame.BLOCKSIZE_MAX64KB
_FAST: Final = 9
_MIN_THOROUGH: Final = 3
_MAX_THOROUGH: Final = 12
"""The library has no thorough compressor below 3, and takes all that lies above 12 as 12."""
_PIECE: Final = 4 * 1024 * 1024
"""Bytes asked for at a time: the library prepares room for all that it is asked for."""


def compress(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """One frame. Level 9 is the fast compressor, every other the thorough one, as in Kafka's stream."""
    frame: bytes = _frame.compress(data, store_size=False, **_options(level))
    return frame


def compressed(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """The bytes of `compress` in pieces, of which the first is the frame's header."""
    frame = _frame.LZ4FrameCompressor(**_options(level))
    yield frame.begin()
    view = memoryview(data)
    for start in range(0, len(view), STEP_SIZE):
        yield frame.compress(view[start : start + STEP_SIZE])
    yield frame.flush()


def _options(level: int) -> dict[str, Any]:
    return {
        "compression_level": 0 if level == _FAST else min(max(level, _MIN_THOROUGH), _MAX_THOROUGH),
        "block_size": _BLOCK_SIZE,
        "block_linked": False,
    }


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """The first frame's data."""
    return decompress_pieces((data,), max_size)


def decompressed(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """The first frame's data in pieces."""
    return decompressed_pieces((data,), max_size)


def decompress_pieces(pieces: Iterable[bytes | bytearray | memoryview], max_size: int) -> bytes:
    """The data of the first frame in `pieces`, which follow each other."""
    return b"".join(_read_frame(pieces, max_size, _PIECE))  # joining a single part copies nothing


def decompressed_pieces(pieces: Iterable[bytes | bytearray | memoryview], max_size: int) -> Iterator[bytes]:
    """The same in pieces. The library copies what it has not read yet, so it gets little at a time."""
    views = (memoryview(piece) for piece in pieces)
    few = (view[start : start + STEP_SIZE] for view in views for start in range(0, len(view), STEP_SIZE))
    return _read_frame(few, max_size, STEP_SIZE)


def _read_frame(pieces: Iterable[bytes | bytearray | memoryview], max_size: int, at_once: int) -> Iterator[bytes]:
    frame = _frame.LZ4FrameDecompressor()
    size = taken = 0
    try:
        for piece in pieces:
            waiting: bytes | bytearray | memoryview = piece
            taken += len(piece)
            while size <= max_size and not frame.eof:
                part: bytes = frame.decompress(waiting, max_length=min(max_size + 1 - size, at_once))
                if part:  # the frame's end comes apart
                    size += len(part)
                    yield part
                waiting = b""
                if frame.needs_input:
                    break
    except RuntimeError as error:
        raise malformed("lz4", error) from None
    if size > max_size:
        raise too_large("lz4", max_size)
    if not frame.eof:
        raise cut_short("lz4", taken)
