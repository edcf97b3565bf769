"""LZ4 as message format v0 has it: frames whose header checksum is wrong.

The checksum is the second byte of an xxHash-32 over the frame descriptor. Kafka's first writer of frames put the
frame's magic number under it too. KIP-57 made that right for the formats from v1 on, and left v0 as it was, for the
clients that knew no better: so v0 is written with the wrong byte, and read whatever the byte is.

The library writes the right one, which is replaced afterwards.
"""

from collections.abc import Iterator

from minibroker_protocol.records.codecs import STEP_SIZE, lz4_codec


def compress(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """Return one frame, whose header checksum also covers the magic number."""
    return _with_old_checksum(lz4_codec.compress(data, level))


def compressed(data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]:
    """Return the bytes of `compress` in pieces."""
    pieces = lz4_codec.compressed(data, level)
    yield _with_old_checksum(next(pieces))
    yield from pieces


def _with_old_checksum(frame: bytes) -> bytes:
    checksum_at = lz4_codec.header_checksum_at(frame)
    return b"".join((frame[:checksum_at], lz4_codec.header_checksum(frame[:checksum_at]), frame[checksum_at + 1 :]))


def decompress(data: bytes | bytearray | memoryview, max_size: int) -> bytes:
    """Return the data of the first frame, whatever its header checksum is."""
    return b"".join(lz4_codec.read_frame(data, max_size, checks_sum=False))


def decompressed(data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]:
    """Return the data of the first frame in pieces."""
    return lz4_codec.read_frame(data, max_size, STEP_SIZE, checks_sum=False)


def check_header(data: bytes | bytearray | memoryview) -> None:
    """Do nothing: only batches of format v2 are checked by their headers alone."""
