"""The columns that records have as rows: those of Spark's Kafka connector, and those of the batch around a record.

Names, types and nullability of the first are the connector's (`KafkaRecordToRowConverter`): every column may be null.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    "magic": pa.int8(),
    "codec": pa.string(),
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "leaderEpoch": pa.int32(),
    "batchBaseOffset": pa.int64(),
    "batchSize": pa.int32(),
}

RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's Kafka connector without options."""
HEADERS_COLUMN: Final = "headers"
"""The column that `includeHeaders` adds. As in the connector, it is null, not empty, for a record without headers."""
BATCH_COLUMNS: Final = (
    "magic",
    "codec",
    "producerId",
    "producerEpoch",
    "sequence",
    "isTransactional",
    "isControl",
    "leaderEpoch",
    "batchBaseOffset",
    "batchSize",
)
"""The columns that `batchFields` adds: those of the batch around a record.

`magic` is the message format, `codec` a name, `sequence` the record's own or -1, and `batchSize` the bytes of the whole
batch as stored. Messages of formats v0 and v1 are batches of one, or wrappers.
"""


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """The Arrow schema of these columns, in their order. `ValueError` for names that are none, or for none."""
    names = tuple(columns)
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        raise ValueError(f"columns: there is no {unknown[0]!r} (known: {', '.join(_TYPES)})")
    if not names or len(set(names)) != len(names):
        raise ValueError(f"columns: {', '.join(names) or 'none'}, but each may be named once, and one must be")
    return pa.schema([pa.field(name, _TYPES[name]) for name in names])
