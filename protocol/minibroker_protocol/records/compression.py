"""The codecs by name. A codec's library is imported when its first batch arrives: a broker's start pays for none."""

from collections.abc import Iterator
from importlib import import_module
from io import SEEK_END, BytesIO
from typing import Final, Protocol, cast

from minibroker_protocol.errors import DecompressedSizeError, EncodeError
from minibroker_protocol.records.codecs import STEP_SIZE
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
"""The level of a codec without a setting. gzip's -1 lets zlib choose; lz4's 9 is its fast compressor."""
_COPIED_AT_ONCE: Final = 1 << 20


class _Codec(Protocol):
    def check_header(self, data: bytes | bytearray | memoryview) -> None: ...

    def compress(self, data: bytes | bytearray | memoryview, level: int) -> bytes: ...

    def decompress(self, data: bytes | bytearray | memoryview, max_size: int) -> bytes: ...

    def compressed(self, data: bytes | bytearray | memoryview, level: int) -> Iterator[bytes]: ...

    def decompressed(self, data: bytes | bytearray | memoryview, max_size: int) -> Iterator[bytes]: ...


_MODULES: Final = {
    CompressionCodec.GZIP: "gzip_codec",
    CompressionCodec.SNAPPY: "snappy_codec",
    CompressionCodec.LZ4: "lz4_codec",
    CompressionCodec.ZSTD: "zstd_codec",
}
_FEW_PACKED: Final = 32 * 1024
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
    return _codec(codec, magic).compress(data, _checked_level(codec, level))


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
    """The records' bytes. `magic` is their format.

    `InvalidRecordError` when `data` is malformed or cut short, `DecompressedSizeError` when it grows beyond `max_size`
    bytes. Memory stays within a small multiple of `max_size`, whatever `data` promises.
    """
    if codec is CompressionCodec.NONE:
        if len(data) > max_size:
            raise _too_large(len(data), max_size)
        return bytes(data)
    return _codec(codec, magic).decompress(data, max_size)


def compress_in_steps(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, magic: int = MAGIC_V2, level: int | None = None
) -> Steps[bytes | bytearray]:
    """`compress` in steps of some milliseconds."""
    if codec is CompressionCodec.NONE or len(data) <= STEP_SIZE:
        return compress(codec, data, magic=magic, level=level)
    out = bytearray()
    for piece in _codec(codec, magic).compressed(data, _checked_level(codec, level)):
        out += piece
        yield
    return out


def decompress_in_steps(
    codec: CompressionCodec, data: bytes | bytearray | memoryview, *, max_size: int, magic: int = MAGIC_V2
) -> Steps[memoryview]:
    """`decompress` in steps of some milliseconds, for a server with other clients. `data` is read in all steps.

    The result is a view, so that what is not compressed is not copied; `bytes_in_steps` makes bytes of it.
    """
    if codec is CompressionCodec.NONE:
        if len(data) > max_size:
            raise _too_large(len(data), max_size)
        return memoryview(data)
    pieces = _codec(codec, magic).decompressed(data, max_size)
    out = BytesIO(next(pieces, b""))  # which copies nothing until a second piece is written
    out.seek(0, SEEK_END)
    yield
    for piece in pieces:
        out.write(piece)
        yield
    return memoryview(out.getvalue())


def bytes_in_steps(data: memoryview) -> Steps[bytes]:
    """`data` as bytes. They are copied in steps, or not at all if `decompress_in_steps` has unpacked them."""
    whole = data.obj
    if isinstance(whole, bytes) and len(whole) == len(data):
        return whole
    out = BytesIO()
    for start in range(0, len(data), _COPIED_AT_ONCE):
        out.write(data[start : start + _COPIED_AT_ONCE])
        yield
    return out.getvalue()


def _too_large(size: int, max_size: int) -> DecompressedSizeError:
    return DecompressedSizeError(f"records: {size} bytes, above the limit of {max_size}")


def check_header(codec: CompressionCodec, data: memoryview) -> None:
    """Raise `DecompressionError` for records (v2) whose first bytes show that Kafka's decoder refuses them."""
    _codec(codec, MAGIC_V2).check_header(data)


def decompress_within(codec: CompressionCodec, data: bytes | bytearray | memoryview, budget: int) -> bytes | None:
    """The records' bytes (v2), None when they are more than `budget`. `InvalidRecordError` for malformed data.

    None, too, for data that takes longer to unpack than any that a writer makes.
    """
    if codec is CompressionCodec.ZSTD and len(data) > _FEW_PACKED:
        from minibroker_protocol.records.codecs.zstd_codec import has_many_blocks  # noqa: PLC0415 - loads its library

        if has_many_blocks(data):
            return None
    try:
        return decompress(codec, data, max_size=budget)
    except DecompressedSizeError:
        return None
