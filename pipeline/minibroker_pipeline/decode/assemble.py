"""Log entries from rows that are arrays already: encoded by an engine, then compressed, with checksums."""

from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.encoder_arrays import (
    ATTRIBUTES,
    END_ROW,
    GROUP,
    LATEST,
    POSITION,
    SIZE,
    PlainBatches,
    Rows,
)
from minibroker_pipeline.decode.headers import scan_headers
from minibroker_pipeline.decode.request import Engine
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records import (
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_DECOMPRESSED_SIZE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    compress,
    compute_crc,
)
from minibroker_protocol.records.header import CODEC_MASK, CRC_AT, LENGTH_AT, TIMESTAMP_TYPE_FLAG
from minibroker_protocol.records.legacy import encode_message

_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
Buffer = bytes | bytearray | memoryview
_Write = Callable[[Rows, NDArray[np.int64], int], PlainBatches]


class EncodedBatches(NamedTuple):
    """Whole entries, one behind the other, and their heads (`HEADER_DTYPE`), from which index entries are made."""

    data: memoryview
    headers: NDArray[Any]


def encode_rows(
    rows: Rows,
    groups: NDArray[np.int64],
    *,
    magic: int = MAGIC_V2,
    level: int | None = None,
    engine: Engine = "auto",
) -> EncodedBatches:
    """The rows as entries of format `magic`, in groups (see `encoder_arrays`) that share none.

    A batch is full before its records exceed the group's bytes, and has one at least; under a codec so is a wrapper of
    v0 and v1, without one each row is an entry. `level` is the codec's. The engine is "numba" or "plain"; "auto" takes
    the first that works. `EncodeError` for what the format lacks: headers, zstd, negative times in v0 and v1.
    """
    if magic != MAGIC_V2:
        _check_legacy(rows, groups, magic)
    plain = _write(rows, groups, magic, engine)
    codecs = groups[plain.batches[:, GROUP], ATTRIBUTES] & CODEC_MASK
    if magic != MAGIC_V2:
        data = _wrapped(plain, rows, groups, magic, level) if codecs.any() else plain.data
        view = memoryview(data)
        return EncodedBatches(view.toreadonly(), scan_headers(view))
    data = _compressed(plain, codecs.tolist(), level) if codecs.any() else plain.data
    view = memoryview(data)
    headers = scan_headers(view)
    for index, (position, size) in enumerate(zip(headers["position"].tolist(), headers["size"].tolist(), strict=True)):
        crc = compute_crc(view[position : position + size])
        _CRC.pack_into(data, position + CRC_AT, crc)
        headers["crc"][index] = crc
    return EncodedBatches(view.toreadonly(), headers)


def _check_legacy(rows: Rows, groups: NDArray[np.int64], magic: int) -> None:
    if rows.headers_count.any():
        raise EncodeError(f"headers: format v{magic} does not have any")
    if ((groups[:, ATTRIBUTES] & CODEC_MASK) == CompressionCodec.ZSTD).any():
        raise EncodeError(f"codec: zstd, which format v{magic} does not know")
    lowest = int(rows.timestamps.min(initial=NO_TIMESTAMP))
    if lowest < NO_TIMESTAMP:
        raise EncodeError(f"timestamp: {lowest}")


def check_compressible(records: Buffer) -> None:
    """`EncodeError` for more than readers decompress at once."""
    if len(records) > MAX_DECOMPRESSED_SIZE:
        raise EncodeError(f"record: {len(records)} bytes, and under a codec {MAX_DECOMPRESSED_SIZE} can be read again")


def _compressed(plain: PlainBatches, codecs: list[int], level: int | None) -> bytearray:
    """The same v2 batches with their records compressed, checksums still missing."""
    view = memoryview(plain.data)
    out = bytearray()
    places = plain.batches[:, POSITION : SIZE + 1].tolist()
    for (position, size), codec in zip(places, codecs, strict=True):
        start = len(out)
        records = view[position + RECORD_BATCH_OVERHEAD : position + size]
        if codec:
            check_compressible(records)
        out += view[position : position + RECORD_BATCH_OVERHEAD]
        out += compress(CompressionCodec(codec), records, level=level)
        _LENGTH.pack_into(out, start + LENGTH_AT, len(out) - start - LOG_OVERHEAD)
    return out


def _wrapped(plain: PlainBatches, rows: Rows, groups: NDArray[np.int64], magic: int, level: int | None) -> bytearray:
    """The messages in wrappers, those whose group has a codec."""
    view = memoryview(plain.data)
    out = bytearray()
    for batch in plain.batches.tolist():
        messages = view[batch[POSITION] : batch[POSITION] + batch[SIZE]]
        attributes = int(groups[batch[GROUP], ATTRIBUTES])
        if not attributes & CODEC_MASK:
            out += messages
            continue
        check_compressible(messages)
        out += encode_message(
            int(rows.offsets[batch[END_ROW] - 1]),
            None,
            compress(CompressionCodec(attributes & CODEC_MASK), messages, magic=magic, level=level),
            magic=magic,
            timestamp=batch[LATEST],
            attributes=attributes & (CODEC_MASK | TIMESTAMP_TYPE_FLAG) if magic else attributes & CODEC_MASK,
        )
    return out


def _write(rows: Rows, groups: NDArray[np.int64], magic: int, engine: Engine) -> PlainBatches:
    if engine in {"auto", "numba"}:
        try:
            return _encoder("numba_encoder")(rows, groups, magic)
        except ImportError:
            if engine == "numba":
                raise
    return _encoder("plain_encoder")(rows, groups, magic)


def _encoder(module: str) -> _Write:
    write: _Write = import_module(f"minibroker_pipeline.decode.{module}").write
    return write
