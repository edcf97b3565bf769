"""Zstandard (RFC 8878; KIP-110), written as one frame, read as any number of frames with and without a content size.

The library's stream reader keeps memory bounded but answers data that is cut short with less output and no error.
So the frames are walked first: their block headers say where each ends.
"""

import threading
from collections.abc import Iterator
from importlib import import_module
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.codecs import STEP_SIZE, cut_short, malformed, too_large
from minibroker_protocol.steps import Steps, drain

_zstandard: Any = import_module("zstandard")

_SKIPPABLE_MAGIC: Final = 0x184D2A50
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
_SKIPPABLE_HEAD: Final = 8
_MAX_FRAME_HEADER: Final = 18
_CHECKSUM_SIZE: Final = 4
_BLOCK_HEAD: Final = 3
_RLE_BLOCK: Final = 1
_COMPRESSED_BLOCK: Final = 2
_MAX_WINDOW: Final = 1 << 27
_MAX_BLOCK: Final = 128 * 1024
_UINT32: Final = Struct("<I")
_BLOCKS_OF_A_STEP: Final = 2_000
_FRAMES_OF_A_STEP: Final = 200
_MANY_STEPS: Final = 10


class _Contexts(threading.local):
    """The library's contexts, one thread's own. Making one costs more than a batch of the usual size."""

    def __init__(self) -> None:
        self.decompressor: Any = _zstandard.ZstdDecompressor()
        self._level: int | None = None
        self._compressor: Any = None

    def compressor(self, level: int) -> Any:
        """The one for `level`. Only the last is kept: some levels take many megabytes."""
        if level != self._level:
            self._compressor, self._level = _zstandard.ZstdCompressor(level), level
        return self._compressor


_contexts: Final = _Contexts()


def compress(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """One frame with its content size."""
    frame: bytes = _contexts.compressor(level).compress(data)
    return frame


def compressed(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """One frame with its content size, in pieces."""
    frame = _zstandard.ZstdCompressor(level).compressobj(size=len(data))  # not the thread's own: see `decompressed`
    view = memoryview(data)
    for start in range(0, len(view), STEP_SIZE):
        yield frame.compress(view[start : start + STEP_SIZE])
    yield frame.flush()


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """All frames, joined."""
    try:
        bound = drain(_bound(memoryview(data)))
        with _contexts.decompressor.stream_reader(data, read_across_frames=True) as reader:
            out: bytes = reader.read(min(bound, max_size) + 1)
    except _zstandard.ZstdError as error:
        raise malformed("zstd", error) from None
    if len(out) > max_size:
        raise too_large("zstd", max_size)
    return out


def decompressed(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """All frames in pieces. Some are empty: they mean that many blocks were counted."""
    decompressor: Any = _zstandard.ZstdDecompressor()  # not the thread's own, which others use between two pieces
    try:
        walk = _bound(memoryview(data))
        while True:
            try:
                next(walk)
            except StopIteration as end:
                left = min(end.value, max_size) + 1
                break
            yield b""
        size = 0
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while part := reader.read(min(left, STEP_SIZE)):
                left -= len(part)
                size += len(part)
                if size > max_size:
                    raise too_large("zstd", max_size)
                yield part
    except _zstandard.ZstdError as error:
        raise malformed("zstd", error) from None


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Raise for a first frame that asks for a dictionary, or for more memory than the decoder has."""
    head = memoryview(data)[:_MAX_FRAME_HEADER]
    if not head:
        return  # Without a frame there are no records.
    if len(head) >= _UINT32.size and _UINT32.unpack_from(head)[0] & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
        return
    try:
        frame = _zstandard.get_frame_parameters(head)
    except _zstandard.ZstdError as error:
        raise malformed("zstd", error) from None
    if frame.dict_id or frame.window_size > _MAX_WINDOW:
        raise malformed("zstd", f"a frame with dictionary {frame.dict_id} and a window of {frame.window_size} bytes")


def has_many_blocks(data: bytes | bytearray | memoryview) -> bool:
    """Whether it takes long to count the blocks, since most of them are nearly empty. Writers make no such frames."""
    try:
        walk = _bound(memoryview(data))
        return any(number == _MANY_STEPS for number, _ in enumerate(walk, 1))
    except (_zstandard.ZstdError, InvalidRecordError):
        return False  # unpacking reports the fault


def _bound(data: memoryview) -> Steps[int]:
    """The most that the frames can hold, provided that the last of them is there to its end."""
    position = bound = frames = 0
    try:
        while position < len(data) or not position:
            position, frame_bound = yield from _walk_frame(data, position)
            bound += frame_bound
            frames += 1
            if not frames % _FRAMES_OF_A_STEP:
                yield
    except (IndexError, StructError):
        raise cut_short("zstd", len(data)) from None
    if position > len(data):
        raise cut_short("zstd", len(data))
    return bound


def _walk_frame(data: memoryview, position: int) -> Steps[tuple[int, int]]:
    """Where the frame at `position` ends, and the most that it can hold."""
    (magic,) = _UINT32.unpack_from(data, position)
    if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
        (size,) = _UINT32.unpack_from(data, position + _UINT32.size)
        return position + _SKIPPABLE_HEAD + size, 0
    head = data[position : position + _MAX_FRAME_HEADER]
    frame = _zstandard.get_frame_parameters(head)
    position += _zstandard.frame_header_size(head)
    bound = last = count = 0
    while not last:
        block_head = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = block_head & 1, block_head >> 1 & 3, block_head >> 3
        position += _BLOCK_HEAD + (1 if kind == _RLE_BLOCK else size)
        bound += _MAX_BLOCK if kind == _COMPRESSED_BLOCK else size
        count += 1
        if not count % _BLOCKS_OF_A_STEP:
            yield
    if frame.has_checksum:
        position += _CHECKSUM_SIZE
    if frame.content_size != _zstandard.CONTENTSIZE_UNKNOWN:
        bound = min(bound, frame.content_size)
    return position, bound
