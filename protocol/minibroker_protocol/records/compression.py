"""Compresses and decompresses records with any codec.

A codec's library is imported when it is first needed, to keep start-up fast.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

from minibroker_protocol.errors import DecompressedSizeError, EncodeError, UnsupportedCodecError
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.header import MAGIC_V0, MAGIC_V2, CompressionCodec

with lazy:
    from minibroker_protocol.records.codecs import zstd_codec

MAX_DECOMPRESSED_SIZE: Final = 128 * 1024 * 1024
"""The default limit for the decompressed records of one batch, in bytes."""

COMPRESSION_LEVELS: Final = {
    CompressionCodec.GZIP: range(1, 10),
    CompressionCodec.LZ4: range(1, 18),
    CompressionCodec.ZSTD: range(-131072, 23),
}
"""The valid levels of each codec (KIP-390), as in Kafka's `compression.<codec>.level`."""
DEFAULT_COMPRESSION_LEVELS: Final = {CompressionCodec.GZIP: -1, CompressionCodec.LZ4: 9, CompressionCodec.ZSTD: 3}
"""The default level of each codec. -1 lets zlib choose gzip's level, and 9 selects LZ4's fast compressor."""
_SMALL_DATA_BYTES: Final = 32 * 1024


@cache
def _load_module(codec: CompressionCodec) -> Any:
    try:
        return import_module(f"minibroker_protocol.records.codecs.{codec.name.lower()}_codec")
    except ModuleNotFoundError as error:
        raise UnsupportedCodecError(f"this installation lacks {codec.name.lower()}: {error}") from error


def compress(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, magic: int = MAGIC_V2, level: int | None = None
) -> bytes:
    """Compress records of format `magic` like the Java producer, or copy them if the codec is NONE.

    `level` is one of `COMPRESSION_LEVELS`, or None for the codec's default. Snappy ignores the level.

    Raises:
        EncodeError: the codec does not have this level.
    """
    return b"".join(compress_in_chunks(codec, data, magic=magic, level=level))


def compress_in_chunks(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, magic: int = MAGIC_V2, level: int | None = None
) -> Iterator[bytes]:
    """Like `compress`, but return the result in chunks, each computed in at most 40 ms with default levels."""
    if codec is CompressionCodec.NONE:
        return iter((bytes(data),))
    level = _checked_level(codec, level)
    module = _load_module(codec)
    is_v0 = magic == MAGIC_V0 and codec is CompressionCodec.LZ4
    chunks: Iterator[bytes] = (module.compress_in_chunks_v0 if is_v0 else module.compress_in_chunks)(data, level)
    return chunks


def _checked_level(codec: CompressionCodec, level: int | None) -> int:
    default = DEFAULT_COMPRESSION_LEVELS.get(codec, 0)
    if level is None:
        return default
    if level != default and level not in COMPRESSION_LEVELS.get(codec, (level,)):
        raise EncodeError(f"{codec.name.lower()}: there is no compression level {level}")
    return level


def decompress(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, max_size: int, magic: int = MAGIC_V2
) -> bytes:
    """Decompress records of format `magic`. The memory used is a small multiple of `max_size`.

    Raises:
        InvalidRecordError: the data is malformed or truncated.
        DecompressedSizeError: the records take more than `max_size` bytes.
    """
    # join() returns a single chunk without copying it.
    return b"".join(decompress_in_chunks(codec, data, max_size=max_size, magic=magic))


def decompress_in_chunks(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, max_size: int, magic: int = MAGIC_V2
) -> Iterator[bytes]:
    """Like `decompress`, but return the records in chunks, each decompressed in a few milliseconds.

    `data` is read until the last chunk.
    """
    if codec is CompressionCodec.NONE:
        if len(data) > max_size:
            raise DecompressedSizeError(f"records: {len(data)} bytes, above the limit of {max_size}")
        return iter((bytes(data),))
    module = _load_module(codec)
    is_v0 = magic == MAGIC_V0 and codec is CompressionCodec.LZ4
    chunks: Iterator[bytes] = (module.decompress_in_chunks_v0 if is_v0 else module.decompress_in_chunks)(data, max_size)
    return chunks


def check_header(codec: CompressionCodec, data: memoryview) -> None:
    """Check the first bytes of compressed v2 records.

    Raises:
        DecompressionError: Kafka's decoder rejects all data with these first bytes.
    """
    _load_module(codec).check_header(data)


def decompress_within(codec: CompressionCodec, data: bytes | bytearray | memoryview, budget: int) -> bytes | None:
    """Decompress v2 records, or return None if the result would exceed `budget` bytes.

    Also return None if decompression would take longer than for data from any real writer.

    Raises:
        InvalidRecordError: the data is malformed.
    """
    if codec is CompressionCodec.ZSTD and len(data) > _SMALL_DATA_BYTES and zstd_codec.has_many_blocks(data):
        return None
    try:
        return decompress(codec, data, max_size=budget)
    except DecompressedSizeError:
        return None
