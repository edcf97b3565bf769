"""Encodes rows of Arrow columns as batches. This is the reverse of `decode`."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from minibroker_pipeline.decode.assemble import (
    ATTRIBUTES,
    LEADER_EPOCH,
    Binary,
    EncodedBatches,
    Rows,
    encode_rows,
    groups_table,
)
from minibroker_pipeline.decode.columns import CODEC_NAMES
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.header import (
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
)
from minibroker_protocol.records.varint import INT64_MAX

__all__ = ["EncodeError", "EncodedBatches", "encode"]

_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")


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
    magic: int = MAGIC_V2,
    log_append_time: int | None = None,
) -> EncodedBatches:
    """Encode the rows of `batch` as log entries.

    The columns of `batch` are key, value, timestamp and headers, all of them optional. A v2 batch ends before its
    records exceed `batch_bytes` uncompressed, but has at least one record. In the formats v0 and v1 without a
    codec, each row is an entry. With a codec, the rows are in wrappers, which are filled like batches. Text is
    encoded as UTF-8.

    Args:
        batch: the rows.
        base_offset: the offset of the first row. The offsets of the other rows follow without gaps.
        codec: the name of the compression codec.
        level: the codec's compression level.
        batch_bytes: the maximum size of a batch's records before compression.
        default_timestamp: replaces null timestamps, in milliseconds. A column of integers is in milliseconds too.
        keep_offsets: whether to use the ascending offsets in the column `offset` instead of `base_offset`.
        leader_epoch: the leader epoch of v2 batches.
        magic: the message format.
        log_append_time: the timestamp for all rows, which then have the timestamp type LogAppendTime.

    Raises:
        EncodeError: a value cannot be encoded, or the format lacks a feature: v0 and v1 have no headers or zstd.
    """
    if codec not in CODEC_NAMES:
        raise EncodeError(f"codec: {codec!r} is not one of {', '.join(CODEC_NAMES)}")
    if not 0 <= base_offset <= INT64_MAX - batch.num_rows:
        raise EncodeError(f"base offset: {base_offset}")
    if not 0 <= magic <= MAGIC_V2:
        raise EncodeError(f"magic: {magic}")
    rows = _read_rows(batch, base_offset if not keep_offsets else None, default_timestamp)
    groups = groups_table([len(rows.offsets)] if len(rows.offsets) else [], batch_bytes)
    groups[:, ATTRIBUTES] = CODEC_NAMES.index(codec)
    groups[:, LEADER_EPOCH] = leader_epoch
    if log_append_time is not None:
        rows = rows._replace(timestamps=np.full(len(rows.offsets), log_append_time, np.int64))
        groups[:, ATTRIBUTES] |= TIMESTAMP_TYPE_FLAG
    return encode_rows(rows, groups, magic=magic, level=level)


def column_of(batch: pa.RecordBatch, name: str) -> Any:
    """Return a column of a batch, or None if it is missing."""
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _read_rows(batch: pa.RecordBatch, base_offset: int | None, default_timestamp: int) -> Rows:
    count = batch.num_rows
    headers = column_of(batch, "headers")
    is_empty = headers is None or headers.null_count == count
    list_of_headers = build_empty_headers(count) if is_empty else _read_headers(headers)
    return Rows(
        _read_offsets(batch, base_offset),
        _read_timestamps(column_of(batch, "timestamp"), count, default_timestamp),
        extract_binary(column_of(batch, "key"), count, "key"),
        extract_binary(column_of(batch, "value"), count, "value"),
        *list_of_headers,
    )


def _read_offsets(batch: pa.RecordBatch, base_offset: int | None) -> NDArray[np.int64]:
    if base_offset is not None:
        return np.arange(base_offset, base_offset + batch.num_rows, dtype=np.int64)
    column = column_of(batch, "offset")
    if column is None or column.null_count:
        raise EncodeError("offset: a column without nulls is needed to keep offsets")
    offsets = column.cast(pa.int64()).to_numpy()
    if len(offsets) and (offsets[0] < 0 or (np.diff(offsets) <= 0).any()):
        raise EncodeError("offset: the column must rise from 0 or above")
    if len(offsets) and offsets[-1] == INT64_MAX:
        raise EncodeError(f"offset: {INT64_MAX} leaves none for the end of the log")
    return np.ascontiguousarray(offsets)


def _read_timestamps(column: Any, count: int, default: int) -> NDArray[np.int64]:
    if column is None:
        return np.full(count, default, np.int64)
    if pa.types.is_timestamp(column.type):
        zoned = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
        column = zoned.cast(_MILLISECONDS, safe=False).cast(pa.int64())
    elif not pa.types.is_integer(column.type):
        raise EncodeError(f"timestamp: {column.type} is neither a timestamp nor an integer")
    filled = pc.fill_null(column.cast(pa.int64()), pa.scalar(default, pa.int64()))
    return np.ascontiguousarray(filled.to_numpy())


def extract_binary(column: Any, count: int, name: str) -> Binary:
    """Return a column's bytes and the positions of its values. If there is no column, all values are null.

    Raises:
        EncodeError: the column has neither bytes nor text.
    """
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


def build_empty_headers(count: int) -> tuple[NDArray[np.int32], NDArray[np.int32], Binary, Binary]:
    """Return empty headers for this number of rows."""
    zeros, nothing = np.zeros(count, np.int32), extract_binary(None, 0, "headers")
    return zeros, zeros, nothing, nothing


def _read_headers(column: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.int32], Binary, Binary]:
    """Return the index of each row's first header, the number of headers per row, and all header keys and values."""
    kind = column.type
    is_pairs = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2  # noqa: PLR2004 - key and value
    if not is_pairs:
        raise EncodeError(f"headers: {kind} is not a list of keys and values")
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    count = np.diff(bounds)
    if column.null_count:
        count[column.is_null().to_numpy(zero_copy_only=False)] = 0
    pairs = column.values
    keys = extract_binary(pairs.field(0), len(pairs), "headers: key")
    values = extract_binary(pairs.field(1), len(pairs), "headers: value")
    if pairs.null_count or (keys.size < 0).any():
        used = pa.ListArray.from_arrays(pa.array(bounds), pairs).flatten()
        if used.null_count or used.field(0).null_count:
            raise EncodeError("headers: a header or its key is null")
        keys = keys._replace(size=np.maximum(keys.size, 0))
    return np.ascontiguousarray(bounds[:-1]), count, keys, values
