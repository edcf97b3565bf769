"""The Zstandard format (RFC 8878; KIP-110).

Data is written as one frame, and read as any number of frames with or without a content size.

The library's stream reader bounds its memory, but returns less output instead of an error for truncated data. The
frames are therefore scanned first, using the sizes in their block headers.
"""

import threading
from collections.abc import Iterator
from importlib import import_module
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.codecs import (
    CHUNK_SIZE,
    compress_chunks,
    malformed_error,
    too_large_error,
    truncated_error,
)

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
_BLOCKS_PER_STEP: Final = 20_000
_BLOCKS_PER_FRAME: Final = 10
"""The number of blocks that can be scanned in the time of one frame header."""


class _Contexts(threading.local):
    """The library's contexts, with one set per thread.

    Creating a context takes longer than compressing a typical batch.
    """

    def __init__(self) -> None:
        self.decompressor: Any = _zstandard.ZstdDecompressor()
        self._level: int | None = None
        self._compressor: Any = None

    def compressor(self, level: int) -> Any:
        """Return the compressor for `level`.

        Only the last compressor is cached, because some levels take many megabytes of memory.
        """
        if level != self._level:
            self._compressor, self._level = _zstandard.ZstdCompressor(level), level
        return self._compressor


_contexts: Final = _Contexts()


def compress_in_chunks(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """Yield one frame with its content size in chunks."""
    if len(data) <= CHUNK_SIZE:
        return iter([_contexts.compressor(level).compress(data)])
    # Other callers may use the thread's shared compressor between two chunks, so create a new one.
    return compress_chunks(_zstandard.ZstdCompressor(level).compressobj(size=len(data)), data)


def decompress_in_chunks(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """Yield the data of all frames in chunks. An empty chunk is yielded after scanning many blocks."""
    try:
        size_limit = 1
        for bound in _size_bounds(memoryview(data)):
            size_limit = min(bound, max_size) + 1
            if bound < 0:
                yield b""
        size = 0
        for chunk in _read(data, size_limit):
            size += len(chunk)
            if size > max_size:
                raise too_large_error("zstd", max_size)
            yield chunk
    except _zstandard.ZstdError as error:
        raise malformed_error("zstd", error) from None


def _read(data: bytes | bytearray | memoryview, remaining: int) -> Iterator[bytes]:
    """Yield the decompressed data of the frames in chunks, at most `remaining` bytes in total."""
    if remaining <= CHUNK_SIZE:
        with _contexts.decompressor.stream_reader(data, read_across_frames=True) as reader:
            data_read: bytes = reader.read(remaining)
        yield data_read
        return
    # Other callers may use the thread's shared decompressor between two chunks, so create a new one.
    with _zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while chunk := reader.read(min(remaining, CHUNK_SIZE)):
            remaining -= len(chunk)
            yield chunk


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Check the header of the first frame.

    Raises:
        DecompressionError: the frame needs a dictionary, or more memory than the decoder has.
    """
    head = memoryview(data)[:_MAX_FRAME_HEADER]
    if not head:
        return  # Empty data is valid: it contains no frame and therefore no records.
    if len(head) >= _UINT32.size and _UINT32.unpack_from(head)[0] & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
        return
    try:
        frame = _zstandard.get_frame_parameters(head)
    except _zstandard.ZstdError as error:
        raise malformed_error("zstd", error) from None
    if frame.dict_id or frame.window_size > _MAX_WINDOW:
        raise malformed_error(
            "zstd", f"a frame with dictionary {frame.dict_id} and a window of {frame.window_size} bytes"
        )


def has_many_blocks(data: bytes | bytearray | memoryview) -> bool:
    """Return whether the data has so many nearly empty blocks that scanning them takes a long time.

    No real writer produces such frames.
    """
    try:
        return next(_size_bounds(memoryview(data))) < 0
    except (_zstandard.ZstdError, InvalidRecordError):
        return False  # Invalid data is reported by its decompression.


def _size_bounds(data: memoryview) -> Iterator[int]:
    """Scan all frames, and yield an upper bound for the size of their data.

    While scanning, yield -1 after every `_BLOCKS_PER_STEP` blocks. The last frame must be complete.
    """
    position: int = 0
    bound: int = 0
    count = 0
    try:
        while position < len(data) or not position:
            count += _BLOCKS_PER_FRAME
            (magic,) = _UINT32.unpack_from(data, position)
            if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
                (size,) = _UINT32.unpack_from(data, position + _UINT32.size)
                position += _SKIPPABLE_HEAD + size
                continue
            head = data[position : position + _MAX_FRAME_HEADER]
            frame = _zstandard.get_frame_parameters(head)
            position += _zstandard.frame_header_size(head)
            frame_bound = last = 0
            while not last:
                block_head = data[position] | data[position + 1] << 8 | data[position + 2] << 16
                last, kind, size = block_head & 1, block_head >> 1 & 3, block_head >> 3
                position += _BLOCK_HEAD + (1 if kind == _RLE_BLOCK else size)
                frame_bound += _MAX_BLOCK if kind == _COMPRESSED_BLOCK else size
                count += 1
                if count >= _BLOCKS_PER_STEP:
                    count = 0
                    yield -1
            if frame.has_checksum:
                position += _CHECKSUM_SIZE
            is_known = frame.content_size != _zstandard.CONTENTSIZE_UNKNOWN
            bound += min(frame_bound, frame.content_size) if is_known else frame_bound
    except (IndexError, StructError):
        raise truncated_error("zstd", len(data)) from None
    if position > len(data):
        raise truncated_error("zstd", len(data))
    yield bound
