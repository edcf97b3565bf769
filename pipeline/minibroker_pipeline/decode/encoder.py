"""Rows to v2 batches (KIP-98), the way back from `decode`."""

from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from minibroker_pipeline.decode.columns import CODEC_NAMES
from minibroker_pipeline.decode.headers import scan_headers
from minibroker_pipeline.decode.request import Engine
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records import (
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    compress,
    compute_crc,
)
from minibroker_protocol.records.header import CRC_AT, CRC_COVERS_FROM, LENGTH_AT
from minibroker_protocol.records.varint import INT64_MAX

__all__ = ["EncodeError", "EncodedBatches", "encode"]

_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")


class EncodedBatches(NamedTuple):
    """Whole v2 batches, one behind the other, and their heads (`HEADER_DTYPE`), from which index entries are made."""

    data: memoryview
    headers: NDArray[Any]


class Binary(NamedTuple):
    """A column of bytes: where each value is in `data`. A size is -1 for null."""

    data: NDArray[np.uint8]
    at: NDArray[np.int32]
    size: NDArray[np.int32]


class Rows(NamedTuple):
    """Everything that is to be written. `headers_first` and `headers_count` say which headers a row has."""

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Binary
    values: Binary
    headers_first: NDArray[np.int32]
    headers_count: NDArray[np.int32]
    header_keys: Binary
    header_values: Binary


def encode(  # noqa: PLR0913 - each a choice of its own, by name
    batch: pa.RecordBatch,
    *,
    base_offset: int = 0,
    codec: str = "none",
    level: int | None = None,
    batch_bytes: int = 64 * 1024,
    default_timestamp: int = NO_TIMESTAMP,
    keep_offsets: bool = False,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    engine: Engine = "auto",
) -> EncodedBatches:
    """The rows of `batch` (its columns key, value, timestamp and headers; any may be missing) as v2 batches.

    A batch is full before its records exceed `batch_bytes` uncompressed, and has one at least. Offsets follow each
    other from `base_offset` on, or with `keep_offsets` are those of the column offset, which must rise. Null timestamps
    become `default_timestamp`, in milliseconds; a column of integers is milliseconds too. Text is taken as UTF-8.
    The engine is "numba" or "plain"; "auto" takes the first that works. `EncodeError` for what cannot be written.
    """
    if codec not in CODEC_NAMES:
        raise EncodeError(f"codec: {codec!r} is none of {', '.join(CODEC_NAMES)}")
    if not 0 <= base_offset <= INT64_MAX - batch.num_rows:
        raise EncodeError(f"base offset: {base_offset}")
    rows = _rows(batch, base_offset if not keep_offsets else None, default_timestamp)
    plain = _write(rows, batch_bytes, leader_epoch, engine)
    codec_id = CompressionCodec(CODEC_NAMES.index(codec))
    data = plain if codec_id is CompressionCodec.NONE else _compressed(plain, codec_id, level)
    view = memoryview(data)
    headers = scan_headers(view)
    for index, (position, size) in enumerate(zip(headers["position"].tolist(), headers["size"].tolist(), strict=True)):
        crc = compute_crc(view[position : position + size])
        _CRC.pack_into(data, position + CRC_AT, crc)
        headers["crc"][index] = crc
    return EncodedBatches(view.toreadonly(), headers)


def _compressed(plain: Any, codec: CompressionCodec, level: int | None) -> bytearray:
    """The same batches with their records compressed, checksums still missing."""
    view = memoryview(plain)
    headers = scan_headers(view)
    out = bytearray()
    for position, size in zip(headers["position"].tolist(), headers["size"].tolist(), strict=True):
        start = len(out)
        out += view[position : position + RECORD_BATCH_OVERHEAD]
        out += compress(codec, view[position + RECORD_BATCH_OVERHEAD : position + size], level=level)
        _LENGTH.pack_into(out, start + LENGTH_AT, len(out) - start - LOG_OVERHEAD)
        _ATTRIBUTES.pack_into(out, start + CRC_COVERS_FROM, codec)
    return out


def _column(batch: pa.RecordBatch, name: str) -> Any:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _rows(batch: pa.RecordBatch, base_offset: int | None, default_timestamp: int) -> Rows:
    count = batch.num_rows
    headers = _column(batch, "headers")
    if headers is None or headers.null_count == count:
        nothing = binary_of(None, 0, "headers")
        zeros = np.zeros(count, np.int32)
        list_of_headers = (zeros, zeros, nothing, nothing)
    else:
        list_of_headers = _headers(headers)
    return Rows(
        _offsets(batch, base_offset),
        _timestamps(_column(batch, "timestamp"), count, default_timestamp),
        binary_of(_column(batch, "key"), count, "key"),
        binary_of(_column(batch, "value"), count, "value"),
        *list_of_headers,
    )


def _offsets(batch: pa.RecordBatch, base_offset: int | None) -> NDArray[np.int64]:
    if base_offset is not None:
        return np.arange(base_offset, base_offset + batch.num_rows, dtype=np.int64)
    column = _column(batch, "offset")
    if column is None or column.null_count:
        raise EncodeError("offset: a column without nulls is needed to keep offsets")
    offsets = column.cast(pa.int64()).to_numpy()
    if len(offsets) and (offsets[0] < 0 or (np.diff(offsets) <= 0).any()):
        raise EncodeError("offset: the column must rise from 0 or above")
    return np.ascontiguousarray(offsets)


def _timestamps(column: Any, count: int, default: int) -> NDArray[np.int64]:
    if column is None:
        return np.full(count, default, np.int64)
    if pa.types.is_timestamp(column.type):
        zoned = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
        column = zoned.cast(_MILLISECONDS, safe=False).cast(pa.int64())
    elif not pa.types.is_integer(column.type):
        raise EncodeError(f"timestamp: {column.type} is neither a timestamp nor an integer")
    filled = pc.fill_null(column.cast(pa.int64()), pa.scalar(default, pa.int64()))
    return np.ascontiguousarray(filled.to_numpy())


def binary_of(column: Any, count: int, name: str) -> Binary:
    """A column's bytes and where its values are in them; all null without a column. `EncodeError` for another type."""
    if column is None:
        return Binary(np.empty(0, np.uint8), np.zeros(count, np.int32), np.full(count, -1, np.int32))
    if not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        try:
            column = column.cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise EncodeError(f"{name}: {column.type} is neither bytes nor text: {error}") from None
    count = len(column)
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1] if count else _NO_BOUNDS
    size = np.diff(bounds)
    if column.null_count:
        size[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return Binary(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), bounds[:-1], size)


_NO_BOUNDS: Final = np.zeros(1, np.int32)


def _headers(column: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.int32], Binary, Binary]:
    """First header and number of headers of each row, and all header keys and values."""
    kind = column.type
    is_pairs = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2  # noqa: PLR2004 - key and value
    if not is_pairs:
        raise EncodeError(f"headers: {kind} is no list of keys and values")
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    count = np.diff(bounds)
    if column.null_count:
        count[column.is_null().to_numpy(zero_copy_only=False)] = 0
    pairs = column.values
    keys = binary_of(pairs.field(0), len(pairs), "headers: key")
    values = binary_of(pairs.field(1), len(pairs), "headers: value")
    if pairs.null_count or (keys.size < 0).any():
        used = pa.ListArray.from_arrays(pa.array(bounds), pairs).flatten()
        if used.null_count or used.field(0).null_count:
            raise EncodeError("headers: a header or its key is null")
        keys = keys._replace(size=np.maximum(keys.size, 0))
    return np.ascontiguousarray(bounds[:-1]), count, keys, values


def _write(rows: Rows, batch_bytes: int, leader_epoch: int, engine: Engine) -> bytearray:
    """All batches, uncompressed and without checksums."""
    if engine in {"auto", "numba"}:
        try:
            return _encoder("numba_encoder")(rows, batch_bytes, leader_epoch)
        except ImportError:
            if engine == "numba":
                raise
    return _encoder("plain_encoder")(rows, batch_bytes, leader_epoch)


def _encoder(module: str) -> Callable[[Rows, int, int], bytearray]:
    write: Callable[[Rows, int, int], bytearray] = import_module(f"minibroker_pipeline.decode.{module}").write
    return write
