"""The request to the decoder, the columns of the decoded rows, and the decoder's report.

`RECORD_COLUMNS` have the names, types and nullability of Spark's connector (`KafkaRecordToRowConverter`), where every
column is nullable.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import pyarrow as pa

from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE

HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

_RECORD_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
}
_BATCH_TYPES: Final = {
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

RECORD_COLUMNS: Final = tuple(_RECORD_TYPES)
"""The columns of Spark's Kafka connector without options."""
HEADERS_COLUMN: Final = "headers"
"""The column added by `includeHeaders`. As in the connector, it is null, not empty, for a record without headers."""
BATCH_COLUMNS: Final = tuple(_BATCH_TYPES)
"""The columns added by `batchFields`, with values of the batch that contains the record.

`magic` is the message format, `codec` is a name, `sequence` is the record's own sequence number or -1, and `batchSize`
is the stored size of the whole batch in bytes. Messages of formats v0 and v1 are batches of one record, or wrappers.
"""
_TYPES: Final = {**_RECORD_TYPES, HEADERS_COLUMN: HEADERS_TYPE, **_BATCH_TYPES}


def schema_of(columns: Iterable[str]) -> pa.Schema:
    """Return the Arrow schema of these columns, in the given order.

    Raises:
        ValueError: a column is unknown or repeated, or there is no column.
    """
    names = tuple(columns)
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        raise ValueError(f"columns: there is no {unknown[0]!r} (known: {', '.join(_TYPES)})")
    if not names or len(set(names)) != len(names):
        raise ValueError(f"columns: {', '.join(names) or 'none'}, but each may be named once, and one must be")
    return pa.schema([pa.field(name, _TYPES[name]) for name in names])


Engine = Literal["auto", "numba", "numpy"]
Isolation = Literal["read_uncommitted", "read_committed"]
Mode = Literal["failfast", "permissive"]

ENGINES: Final[tuple[Engine, ...]] = ("auto", "numba", "numpy")
END_OF_OFFSETS: Final = 2**63 - 1
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records per Arrow batch. Batches of a quarter of this size make decoding a tenth slower, and larger batches
gain nothing.
"""
_MAX_KEPT_DAMAGE: Final = 1000


def engine_named(name: str) -> Engine:
    """Return the engine with this name. The removed engine "plain" is replaced by "numpy", with a warning.

    Raises:
        ValueError: the engine is unknown.
    """
    if name == "plain":
        warnings.warn("engine: plain has been removed, numpy is used; set engine to numpy or auto", stacklevel=3)
        return "numpy"
    for engine in ENGINES:
        if name == engine:
            return engine
    raise ValueError(f"engine: {name!r} is not one of {', '.join(ENGINES)}")


class AbortedRange(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its marker. The range includes both offsets."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeRequest:
    """The records to decode from a part of a log, and their columns.

    Raises:
        ValueError: the request is invalid.
    """

    topic: str = ""
    partition: int = 0
    #: The columns of a row, in order: names from `RECORD_COLUMNS`, `HEADERS_COLUMN` and `BATCH_COLUMNS`.
    columns: tuple[str, ...] = RECORD_COLUMNS
    #: Records with offsets below `first_offset`, or at or above `end_offset`, are omitted.
    first_offset: int = 0
    end_offset: int = END_OF_OFFSETS
    #: If `isolation` is "read_committed", the records of the transactions in `aborted` are omitted. The caller must set
    #: `end_offset` to the last stable offset.
    isolation: Isolation = "read_uncommitted"
    aborted: tuple[AbortedRange | tuple[int, int, int], ...] = ()
    #: Whether transaction markers become rows, although they are not data.
    include_control: bool = False
    verify_crc: bool = True
    #: "failfast" raises `DamagedLogError`; "permissive" skips damaged batches and counts them in the report.
    mode: Mode = "failfast"
    engine: Engine = "auto"
    #: Error messages name this `file`, and count bytes from the data's `position` in the file.
    file: str = ""
    position: int = 0
    chunk_bytes: int = CHUNK_BYTES
    max_decompressed_size: int = MAX_DECOMPRESSED_SIZE

    def __post_init__(self) -> None:
        schema_of(self.columns)
        object.__setattr__(self, "engine", engine_named(self.engine))
        if self.mode not in ("failfast", "permissive"):
            raise ValueError(f"mode: {self.mode!r} is neither failfast nor permissive")
        if self.isolation not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"isolation: {self.isolation!r} is neither read_uncommitted nor read_committed")
        if self.chunk_bytes <= 0:
            raise ValueError(f"chunk bytes: {self.chunk_bytes}")


class Damage(NamedTuple):
    """A damaged part of a log: its position in the file, its base offset if readable, its size, and the reason."""

    position: int
    offset: int | None
    size: int
    message: str


class DamagedLogError(Exception):
    """Bytes of a log that are not records. The message contains the file, the position and the offset."""

    def __init__(self, file: str, damage: Damage) -> None:
        offset = "" if damage.offset is None else f", offset {damage.offset}"
        super().__init__(f"{file or 'log'}: byte {damage.position}{offset}: {damage.message}")
        self.file = file
        self.damage = damage

    def __reduce__(self) -> tuple[type["DamagedLogError"], tuple[str, Damage]]:
        return DamagedLogError, (self.file, self.damage)


@dataclass(slots=True)
class DecodeReport:
    """The counts of one or more `decode` calls. They are updated before each batch of rows is yielded."""

    rows: int = 0
    #: The number of entries that can have rows, without control batches and entries outside the offsets.
    batches: int = 0
    #: The size of all processed entries in bytes. An incomplete entry at the end is not included.
    consumed: int = 0
    #: Permissive mode skips damaged batches, and byte ranges that are not batches. `damaged_batches` is their number,
    #: and `damaged_bytes` their total size.
    damaged_batches: int = 0
    damaged_bytes: int = 0
    #: The first thousand damaged parts.
    damage: list[Damage] = field(default_factory=list[Damage])

    def add_damage(self, damage: Damage) -> None:
        """Count a damaged part."""
        self.damaged_batches += 1
        self.damaged_bytes += damage.size
        if len(self.damage) < _MAX_KEPT_DAMAGE:
            self.damage.append(damage)
