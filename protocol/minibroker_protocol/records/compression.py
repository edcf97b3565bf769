"""The codecs by name. A codec's library is imported when its first batch arrives: a broker's start pays for none."""

from importlib import import_module
from typing import Final, Protocol, cast

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.header import CompressionCodec


class _Codec(Protocol):
    def compress(self, data: bytes | bytearray | memoryview) -> bytes: ...

    def decompress(self, data: bytes | bytearray | memoryview, max_size: int) -> bytes: ...


_MODULES: Final = {
    CompressionCodec.GZIP: "minibroker_protocol.records.codecs.gzip_codec",
    CompressionCodec.SNAPPY: "minibroker_protocol.records.codecs.snappy_codec",
    CompressionCodec.LZ4: "minibroker_protocol.records.codecs.lz4_codec",
    CompressionCodec.ZSTD: "minibroker_protocol.records.codecs.zstd_codec",
}
_loaded: Final[dict[CompressionCodec, _Codec]] = {}


def _load(codec: CompressionCodec) -> _Codec:
    return _loaded.setdefault(codec, cast("_Codec", import_module(_MODULES[codec])))


def compress(codec: CompressionCodec, data: bytes | bytearray | memoryview) -> bytes:
    """`data` as the Java producer would compress it; under NONE, a copy."""
    if codec is CompressionCodec.NONE:
        return bytes(data)
    return (_loaded.get(codec) or _load(codec)).compress(data)


def decompress(codec: CompressionCodec, data: bytes | bytearray | memoryview, *, max_size: int) -> bytes:
    """The records' bytes. `InvalidRecordError` when `data` is malformed, cut short, or grows beyond `max_size` bytes.

    Memory stays within a small multiple of `max_size`, whatever `data` promises.
    """
    if codec is CompressionCodec.NONE:
        if len(data) > max_size:
            raise InvalidRecordError(f"records: {len(data)} bytes, above the limit of {max_size}")
        return bytes(data)
    return (_loaded.get(codec) or _load(codec)).decompress(data, max_size)
