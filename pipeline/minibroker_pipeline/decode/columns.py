"""Builds Arrow columns from the field positions found by an engine."""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode.blocks import BASE_OFFSET, ENTRY, ROWS, RecordTable
from minibroker_pipeline.decode.headers import select_headers
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.decode.request import HEADERS_TYPE, schema_of

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_MILLISECOND: Final = 1000
_MAX_MILLISECONDS: Final = (2**63 - 1) // _MILLISECOND
_INT32_MAX: Final = 2**31 - 1
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def microseconds(timestamps: NDArray[np.int64]) -> pa.Array:
    """Convert milliseconds to Spark's timestamps.

    Times outside Spark's range of about 292,000 years in either direction become null.
    """
    rows = len(timestamps)
    if rows and (timestamps.max() > _MAX_MILLISECONDS or timestamps.min() < -_MAX_MILLISECONDS):
        is_surplus = (timestamps > _MAX_MILLISECONDS) | (timestamps < -_MAX_MILLISECONDS)
        scaled = np.where(is_surplus, 0, timestamps) * _MILLISECOND
        return pa.array(scaled, mask=is_surplus).cast(_TIMESTAMP)
    timestamps *= _MILLISECOND  # The milliseconds are no longer needed, so they are overwritten.
    return _numbers(timestamps, _TIMESTAMP)


def _numbers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def text_of(key: bytes) -> str:
    """Decode a header's key like Kafka's Java clients. Bytes that are not UTF-8 become the replacement character.

    Java replaces an encoded surrogate with one character, whereas Python replaces each of its bytes.
    """
    try:
        return key.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, key).decode("utf-8", "replace")


_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


def header_keys(keys: pa.BinaryArray) -> pa.StringArray:
    """Return header keys as text. They are decoded one by one with `text_of` only if one of them is not valid UTF-8."""
    text = pa.StringArray.from_buffers(len(keys), keys.buffers()[1], keys.buffers()[2])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([text_of(key) for key in keys.to_pylist()], pa.string())
    return text


class Repeated:
    """A column of one repeated value, which is built once and then sliced."""

    def __init__(self, value: Any, kind: pa.DataType) -> None:
        self.value = pa.scalar(value, kind)
        self.column = pa.nulls(0, kind)

    def take(self, rows: int) -> pa.Array:
        """Return a column with this number of rows."""
        if len(self.column) < rows:
            self.column = pa.repeat(self.value, rows + rows // 4)
        return self.column.slice(0, rows)


class ColumnBuilder:
    """Builds the requested columns from the records that one engine found. A single builder serves all chunks."""

    def __init__(self, columns: tuple[str, ...], topic: str, partition: int, engine: RecordEngine) -> None:
        self.schema = schema_of(columns)
        self.engine = engine
        self.topic = Repeated(topic, pa.string())
        self.partition = Repeated(partition, pa.int32())
        self._uniform: dict[tuple[str, Any], Repeated] = {}

    def build(self, table: RecordTable, blocks: NDArray[np.int64], headers: NDArray[Any]) -> pa.RecordBatch:
        """Return the rows for a table of records, given its blocks and the headers of its entries."""
        batch_columns = _BatchColumns(self, table, blocks, headers)
        arrays = [
            _RECORD_BUILDERS[name](self, table)
            if name in _RECORD_BUILDERS
            else _BATCH_BUILDERS[name](batch_columns, name)
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def headers(self, table: RecordTable) -> pa.Array:
        """Return the `headers` column."""
        rows = table.rows
        if not table.header_count[:rows].any():
            return pa.nulls(rows, HEADERS_TYPE)
        validity, lists, keys, values = self.engine.headers(table)
        pairs = pa.StructArray.from_arrays([header_keys(keys), values], fields=list(HEADERS_TYPE.value_type))
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [validity, lists], children=[pairs])

    def uniform(self, name: str, value: Any, kind: pa.DataType, rows: int) -> pa.Array:
        """Return a column that repeats one value. The column is cached for the next chunk."""
        repeated = self._uniform.get((name, value))
        if repeated is None:
            repeated = self._uniform[name, value] = Repeated(value, kind)
        return repeated.take(rows)


class _BatchColumns:
    """Builds, for one chunk, the columns whose values come from the batch of a record."""

    def __init__(
        self, builder: ColumnBuilder, table: RecordTable, blocks: NDArray[np.int64], headers: NDArray[Any]
    ) -> None:
        self._builder = builder
        self._table = table
        self._counts = blocks[:, ROWS]
        self.base_offsets = blocks[:, BASE_OFFSET]
        self._headers = headers
        self._entries = blocks[:, ENTRY]

    def spread(self, name: str, values: NDArray[Any]) -> pa.Array:
        """Return a column with a block's value for each of its records."""
        kind = self._builder.schema.field(name).type
        if (values == values[0]).all():
            return self._builder.uniform(name, values[0].item(), kind, self._table.rows)
        return pa.array(np.repeat(values, self._counts), kind)

    def header(self, name: str) -> NDArray[Any]:
        """Return a header field of each block."""
        return select_headers(self._headers[name], self._entries)

    def timestamp_type(self, name: str) -> pa.Array:
        types = (self.header("attributes") >> 3 & 1).astype(np.int32)
        return self.spread(name, np.where(self.header("magic") == 0, np.int32(-1), types))

    def codec(self, name: str) -> pa.Array:
        ids = self.header("codec")
        if (ids == ids[0]).all():
            return self._builder.uniform(name, CODEC_NAMES[ids[0]], pa.string(), self._table.rows)
        return pa.array(CODEC_NAMES, pa.string()).take(pa.array(np.repeat(ids, self._counts)))

    def sequence(self, name: str) -> pa.Array:
        sequences = self.header("base_sequence")
        if (sequences < 0).all():
            return self._builder.uniform(name, -1, pa.int32(), self._table.rows)
        first = np.repeat(sequences.astype(np.int64), self._counts)
        index = self._table.offsets[: self._table.rows] - np.repeat(self.base_offsets, self._counts)
        return pa.array(np.where(first < 0, -1, (first + index) & _INT32_MAX), pa.int32())

    def flag(self, bit: int) -> NDArray[np.bool_]:
        is_set: NDArray[np.bool_] = self.header("attributes") & bit != 0
        return is_set


_RECORD_BUILDERS: Final[dict[str, Callable[[ColumnBuilder, RecordTable], pa.Array]]] = {
    "key": lambda builder, table: builder.engine.binary(table.data, table.key_at, table.key_size, table.rows),
    "value": lambda builder, table: builder.engine.binary(table.data, table.value_at, table.value_size, table.rows),
    "topic": lambda builder, table: builder.topic.take(table.rows),
    "partition": lambda builder, table: builder.partition.take(table.rows),
    "offset": lambda _, table: _numbers(table.offsets[: table.rows], pa.int64()),
    "timestamp": lambda _, table: microseconds(table.timestamps[: table.rows]),
    "headers": ColumnBuilder.headers,
}
"""Columns with values of the record itself."""

_BATCH_BUILDERS: Final[dict[str, Callable[[_BatchColumns, str], pa.Array]]] = {
    "timestampType": _BatchColumns.timestamp_type,
    "magic": lambda batch, name: batch.spread(name, batch.header("magic")),
    "codec": _BatchColumns.codec,
    "producerId": lambda batch, name: batch.spread(name, batch.header("producer_id")),
    "producerEpoch": lambda batch, name: batch.spread(name, batch.header("producer_epoch")),
    "sequence": _BatchColumns.sequence,
    "isTransactional": lambda batch, name: batch.spread(name, batch.flag(0x10)),
    "isControl": lambda batch, name: batch.spread(name, batch.flag(0x20)),
    "leaderEpoch": lambda batch, name: batch.spread(name, batch.header("leader_epoch")),
    "batchBaseOffset": lambda batch, name: batch.spread(name, batch.base_offsets),
    "batchSize": lambda batch, name: batch.spread(name, batch.header("size")),
}
