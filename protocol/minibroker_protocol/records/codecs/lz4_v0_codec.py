"""LZ4 as message format v0 has it: frames whose header checksum is wrong.

The checksum is the second byte of an xxHash-32 over the frame descriptor. Kafka's first writer of frames put the
frame's magic number under it too. KIP-57 made that right for the formats from v1 on, and left v0 as it was, for the
clients that knew no better: so v0 is written with the wrong byte, and read whatever the byte is.

The library insists on the right one. It is put there before the library looks, and the wrong one after it has written.
"""

from collections.abc import Iterator
from typing import Final

from minibroker_protocol.records.codecs import lz4_codec, malformed

_MAGIC_SIZE: Final = 4
_SMALLEST_HEADER: Final = 7
"""Bytes of a frame's header: its magic number, two descriptor bytes, and the checksum."""
_CONTENT_SIZE_FLAG: Final = 0x08
_CONTENT_SIZE: Final = 8
_DICTIONARY_FLAG: Final = 0x01

_PRIME_1: Final = 2_654_435_761
_PRIME_2: Final = 2_246_822_519
_PRIME_3: Final = 3_266_489_917
_PRIME_4: Final = 668_265_263
_PRIME_5: Final = 374_761_393
_UINT32: Final = 2**32 - 1


def compress(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """One frame, whose header checksum also covers the magic number."""
    return _with_old_checksum(lz4_codec.compress(data, level))


def compressed(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """The bytes of `compress` in pieces."""
    pieces = lz4_codec.compressed(data, level)
    yield _with_old_checksum(next(pieces))
    yield from pieces


def _with_old_checksum(frame: bytes) -> bytes:
    checksum_at = _checksum_at(frame)
    return b"".join((frame[:checksum_at], _checksum(frame[:checksum_at]), frame[checksum_at + 1 :]))


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """The first frame's data, whatever its header checksum says."""
    return lz4_codec.decompress_pieces(_with_right_checksum(data), max_size)


def decompressed(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """The first frame's data in pieces."""
    return lz4_codec.decompressed_pieces(_with_right_checksum(data), max_size)


def _with_right_checksum(data: bytes | bytearray | memoryview) -> tuple[bytes | memoryview, ...]:
    """The frame as the library reads it, in pieces."""
    view = memoryview(data)
    if len(view) < _SMALLEST_HEADER:
        return (view,)
    checksum_at = _checksum_at(view)
    if view[_MAGIC_SIZE] & _DICTIONARY_FLAG:
        raise malformed("lz4", "a frame that asks for a dictionary")
    head = bytes(view[:checksum_at])
    return head + _checksum(head[_MAGIC_SIZE:]), view[checksum_at + 1 :]


def _checksum_at(frame: bytes | memoryview) -> int:
    """Where the header checksum of a frame stands, of which at least the smallest header is there."""
    return _SMALLEST_HEADER - 1 + (_CONTENT_SIZE if frame[_MAGIC_SIZE] & _CONTENT_SIZE_FLAG else 0)


def _checksum(covered: bytes) -> bytes:
    return bytes((xxh32_of_few(covered) >> 8 & 0xFF,))


def xxh32_of_few(data: bytes) -> int:
    """The xxHash-32 with seed 0 of at most 15 bytes, for which the algorithm leaves its four-lane loop out."""
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
