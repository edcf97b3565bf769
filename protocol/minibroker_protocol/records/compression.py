"""The codecs by name. A codec's library is imported when its first batch arrives: a broker's start pays for none."""

from collections.abc import Iterator
from importlib import import_module
from typing import Final, Protocol, cast

from minibroker_protocol.errors import DecompressedSizeError, EncodeError
from minibroker_protocol.records.header import MAGIC_V0, MAGIC_V2, CompressionCodec
from minibroker_protocol.steps import Steps

MAX_DECOMPRESSED_SIZE: Final = 128 * 1024 * 1024
"""Bytes that one batch's records may grow to unless the reader says otherwise."""

COMPRESSION_LEVELS: Final = {
    CompressionCodec.GZIP: range(1, 10),
    CompressionCodec.LZ4: range(1, 18),
    CompressionCodec.ZSTD: range(-131072, 23),
}
"""The levels that KIP-390 gives each codec, as the limits of Kafka's `compression.<codec>.level`."""
DEFAULT_COMPRESSION_LEVELS: Final = {CompressionCodec.GZIP: -1, CompressionCodec.LZ4: 9, CompressionCodec.ZSTD: 3}
"""What each codec does when nothing is said. gzip's -1 lets zlib choose; lz4's 9 is its fast compressor."""


class _Codec(Protocol):
    def compress(self, data: bytes | bytearray | memoryview, level: int) -> bytes: ...

    def decompress(self, data: bytes | bytearray | memoryview, max_size: int) -> bytes: ...

    def decompressed(self, data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]: ...


class _PiecewiseCodec(_Codec, Protocol):
    def compressed(self, data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]: ...


_MODULES: Final = {
    CompressionCodec.GZIP: "gzip_codec",
    CompressionCodec.SNAPPY: "snappy_codec",
    CompressionCodec.LZ4: "lz4_codec",
    CompressionCodec.ZSTD: "zstd_codec",
}
_LZ4_OF_V0: Final = "lz4_v0_codec"
_loaded: Final[dict[str, _Codec]] = {}


def _codec(codec: CompressionCodec, magic: int) -> _Codec:
    name = _LZ4_OF_V0 if magic == MAGIC_V0 and codec is CompressionCodec.LZ4 else _MODULES[codec]
    return _loaded.get(name) or _load(name)


def _load(name: str) -> _Codec:
    module = import_module(f"minibroker_protocol.records.codecs.{name}")
    return _loaded.setdefault(name, cast("_Codec", module))


def compress(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, magic: int = MAGIC_V2, level: int | None = None
) -> bytes:
    """`data` as the Java producer would compress it for records of format `magic`; under NONE, a copy.

    `level` is one of `COMPRESSION_LEVELS`, or None for the codec's default; snappy pays no heed to it. `EncodeError`
    for one that the codec does not have.
    """
    if codec is CompressionCodec.NONE:
        return bytes(data)
    default = DEFAULT_COMPRESSION_LEVELS.get(codec, 0)
    if level is None:
        level = default
    elif level != default and level not in COMPRESSION_LEVELS.get(codec, (level,)):
        raise EncodeError(f"{codec.name.lower()}: there is no compression level {level}")
    return _codec(codec, magic).compress(data, level)


def decompress(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, max_size: int, magic: int = MAGIC_V2
) -> bytes:
    """The records' bytes. `magic` is their format.

    `InvalidRecordError` when `data` is malformed or cut short, `DecompressedSizeError` when it grows beyond `max_size`
    bytes. Memory stays within a small multiple of `max_size`, whatever `data` promises.
    """
    if codec is CompressionCodec.NONE:
        if len(data) > max_size:
            raise _too_large(len(data), max_size)
        return bytes(data)
    return _codec(codec, magic).decompress(data, max_size)


def compress_in_steps(codec: CompressionCodec, data: bytes | bytearray | memoryview, *, magic: int) -> Steps[bytearray]:
    """`compress` at the default level in steps of some milliseconds, for the formats v0 and v1, so not with zstd."""
    out = bytearray()
    pieces = cast("_PiecewiseCodec", _codec(codec, magic)).compressed(data, DEFAULT_COMPRESSION_LEVELS.get(codec, 0))
    for piece in pieces:
        out += piece
        yield
    return out


def decompress_in_steps(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, max_size: int, magic: int = MAGIC_V2
) -> Steps[memoryview]:
    """`decompress` in steps of some milliseconds, for whoever has others to serve. `data` is read in all steps.

    The result is a view: making `bytes` of many megabytes would take long, too.
    """
    if codec is CompressionCodec.NONE:
        if len(data) > max_size:
            raise _too_large(len(data), max_size)
        return memoryview(data)
    out = bytearray()
    for piece in _codec(codec, magic).decompressed(data, max_size):
        out += piece
        yield
    return memoryview(out)


def _too_large(size: int, max_size: int) -> DecompressedSizeError:
    return DecompressedSizeError(f"records: {size} bytes, above the limit of {max_size}")


def decompress_within(codec: CompressionCodec, data: bytes | bytearray | memoryview, budget: int) -> bytes | None:
    """The records' bytes (v2), None when they are more than `budget`. `InvalidRecordError` for malformed data."""
    try:
        return decompress(codec, data, max_size=budget)
    except DecompressedSizeError:
        return None
