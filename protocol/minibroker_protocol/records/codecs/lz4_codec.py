"""The LZ4 frame format, with the correct header checksum required by message formats v1 and v2 (KIP-57).

Frames are written the way Kafka's `Lz4BlockOutputStream` writes them: with independent blocks of 64 KB, no content size
and no checksums. They are read as its `Lz4BlockInputStream` reads them. It reads one frame, ignores the bytes after it,
and rejects linked blocks and dictionaries. Kafka verifies the checksums of the header and the blocks, but skips the
content size and the content checksum. The header that is passed to the library therefore omits these two.

Message format v0 has frames with a wrong header checksum. The checksum is the second byte of an xxHash-32 over the
frame descriptor, but Kafka's first implementation also hashed the magic number. KIP-57 corrected the checksum for
formats v1 and later, but left v0 as it was, for old clients. Data in v0 is therefore written with the wrong checksum,
and read with any checksum.
"""

from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from typing import Any, Final

from minibroker_protocol.records.codecs import (
    CHUNK_SIZE,
    compress_chunks,
    malformed_error,
    too_large_error,
    truncated_error,
)

_frame: Any = import_module("lz4.frame")
_BLOCK_SIZE: Final[int] = _frame.BLOCKSIZE_MAX64KB
_FAST: Final = 9
_MIN_THOROUGH: Final = 3
_MAX_THOROUGH: Final = 12
"""The library has no thorough compressor below level 3, and treats levels above 12 as 12."""

_MAGIC: Final = b"\x04\x22\x4d\x18"
MIN_HEADER_SIZE: Final = 7
"""The size of a header with a magic number, two descriptor bytes and a checksum, in bytes."""
_VERSION_1: Final = 0x40
_VERSION_MASK: Final = 0xC0
_INDEPENDENT_FLAG: Final = 0x20
_CONTENT_SIZE_FLAG: Final = 0x08
_CONTENT_SIZE: Final = 8
_CONTENT_CHECKSUM_FLAG: Final = 0x04
_CONTENT_CHECKSUM_SIZE: Final = 4
_RESERVED_FLAGS: Final = 0x03
"""The lower bit announces a dictionary."""
_BLOCK_SIZES: Final = (0x40, 0x50, 0x60, 0x70)

_PRIME_1: Final = 2_654_435_761
_PRIME_2: Final = 2_246_822_519
_PRIME_3: Final = 3_266_489_917
_PRIME_4: Final = 668_265_263
_PRIME_5: Final = 374_761_393
_UINT32: Final = 2**32 - 1


def compress_in_chunks(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """Yield one frame in chunks, beginning with its header.

    As in Kafka's stream, level 9 selects the fast compressor, and all other levels the thorough one.
    """
    frame = _frame.LZ4FrameCompressor(
        compression_level=0 if level == _FAST else min(max(level, _MIN_THOROUGH), _MAX_THOROUGH),
        block_size=_BLOCK_SIZE,
        block_linked=False,
    )
    return chain([frame.begin()], compress_chunks(frame, data))


def compress_in_chunks_v0(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """Yield one frame in chunks, with a header checksum that also covers the magic number."""
    chunks = compress_in_chunks(data, level)
    covered = next(chunks)[:-1]
    return chain([covered + header_checksum(covered)], chunks)


def decompress_in_chunks_v0(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """Yield the data of the first frame in chunks, ignoring its header checksum."""
    return decompress_in_chunks(data, max_size, verifies_checksum=False)


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Check the header of a frame.

    Raises:
        DecompressionError: Kafka rejects this header.
    """
    _read_header(memoryview(data), verifies_checksum=True)


def decompress_in_chunks(
    data: bytes | bytearray | memoryview, max_size: int, *, verifies_checksum: bool = True
) -> Iterator[bytes]:
    """Yield the data of the first frame in chunks.

    Raises:
        DecompressionError: the frame is malformed, or uses features that Kafka does not support.
        DecompressedSizeError: the data takes more than `max_size` bytes.
    """
    view = memoryview(data)
    header, position = _read_header(view, verifies_checksum=verifies_checksum)
    frame = _frame.LZ4FrameDecompressor()
    size = 0
    unread: bytes | memoryview = header
    try:
        while size <= max_size and not frame.eof:
            chunk: bytes = frame.decompress(unread, max_length=min(max_size + 1 - size, CHUNK_SIZE))
            if chunk:  # The chunk is empty if only the frame's end mark was left.
                size += len(chunk)
                yield chunk
            unread = b""
            if frame.needs_input:
                if position >= len(view):
                    break
                # Limit the input, because the library copies the part that it does not read.
                unread = view[position : position + CHUNK_SIZE]
                position += len(unread)
    except RuntimeError as error:
        raise malformed_error("lz4", error) from None
    if size > max_size:
        raise too_large_error("lz4", max_size)
    remaining_bytes = len(view) - position + len(frame.unused_data or b"")
    if not frame.eof or (view[len(_MAGIC)] & _CONTENT_CHECKSUM_FLAG and remaining_bytes < _CONTENT_CHECKSUM_SIZE):
        raise truncated_error("lz4", len(view))


def _read_header(view: memoryview, *, verifies_checksum: bool) -> tuple[bytes, int]:
    """Return a header that makes the library read the blocks as Kafka does, and the position of the first block.

    The checks are those of Kafka's `Lz4BlockInputStream.readHeader`, in the same order.
    """
    if len(view) < MIN_HEADER_SIZE - 1:
        raise truncated_error("lz4", len(view))
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise malformed_error("lz4", "Stream unsupported (invalid magic bytes)")
    flags, sizes = view[len(_MAGIC)], view[len(_MAGIC) + 1]
    if flags & _RESERVED_FLAGS:
        raise malformed_error("lz4", "Reserved bits must be 0, and dictionaries are unsupported")
    if not flags & _INDEPENDENT_FLAG:
        raise malformed_error("lz4", "Dependent block stream is unsupported")
    if flags & _VERSION_MASK != _VERSION_1:
        raise malformed_error("lz4", f"Version {flags >> 6} is unsupported")
    if sizes not in _BLOCK_SIZES:
        raise malformed_error("lz4", f"Block sizes of {sizes:#x} are unsupported")
    checksum_at = header_checksum_at(view)
    if len(view) <= checksum_at:
        raise truncated_error("lz4", len(view))
    if verifies_checksum and view[checksum_at] != header_checksum(bytes(view[len(_MAGIC) : checksum_at]))[0]:
        raise malformed_error("lz4", "Stream frame descriptor corrupted")
    descriptor = bytes((flags & ~(_CONTENT_SIZE_FLAG | _CONTENT_CHECKSUM_FLAG), sizes))
    return _MAGIC + descriptor + header_checksum(descriptor), checksum_at + 1


def header_checksum_at(frame: bytes | memoryview) -> int:
    """Return the position of a frame's header checksum."""
    return MIN_HEADER_SIZE - 1 + (_CONTENT_SIZE if frame[len(_MAGIC)] & _CONTENT_SIZE_FLAG else 0)


def header_checksum(covered: bytes) -> bytes:
    """Return the checksum byte for the header bytes that the checksum covers."""
    return bytes((short_xxh32(covered) >> 8 & 0xFF,))


def short_xxh32(data: bytes) -> int:
    """Return the xxHash-32 with seed 0 of at most 15 bytes, for which the algorithm skips its four-lane loop."""
    whole_words = len(data) & ~3
    hashed = _PRIME_5 + len(data)
    for start in range(0, whole_words, 4):
        hashed = hashed + int.from_bytes(data[start : start + 4], "little") * _PRIME_3 & _UINT32
        hashed = _rotate(hashed, 17) * _PRIME_4 & _UINT32
    for byte in data[whole_words:]:
        hashed = hashed + byte * _PRIME_5 & _UINT32
        hashed = _rotate(hashed, 11) * _PRIME_1 & _UINT32
    hashed = (hashed ^ hashed >> 15) * _PRIME_2 & _UINT32
    hashed = (hashed ^ hashed >> 13) * _PRIME_3 & _UINT32
    return hashed ^ hashed >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _UINT32
