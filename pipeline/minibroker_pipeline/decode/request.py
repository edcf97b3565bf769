"""A request to the decoder with the columns of its rows, and its report besides the rows.

Names, types and nullability of `RECORD_COLUMNS` are those of Spark's connector (`KafkaRecordToRowConverter`): every
column may be null.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import pyarrow as pa

from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE

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


Engine = Literal["auto", "numba", "numpy"]
Isolation = Literal["read_uncommitted", "read_committed"]
Mode = Literal["failfast", "permissive"]

ENGINES: Final[tuple[Engine, ...]] = ("auto", "numba", "numpy")
END_OF_OFFSETS: Final = 2**63 - 1
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records that become one Arrow batch. With a quarter of it decoding is a tenth slower, more gains nothing."""
_DAMAGE_KEPT: Final = 1000


def engine_named(name: str) -> Engine:
    """Return the engine with this name, for the former engine "plain" with a warning. Raise ValueError for others."""
    if name == "plain":
        warnings.warn("engine: plain has been removed, numpy is used; set engine to numpy or auto", stacklevel=3)
        return "numpy"
    for engine in ENGINES:
        if name == engine:
            return engine
    raise ValueError(f"engine: {name!r} is not one of {', '.join(ENGINES)}")


class AbortedRange(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its marker, both within it."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeRequest:
    """Which records of a piece of a log are wanted, as which columns. `ValueError` for an invalid request."""

    topic: str = ""
    partition: int = 0
    #: Names of `RECORD_COLUMNS`, `HEADERS_COLUMN` and `BATCH_COLUMNS`, in the order that the rows shall have.
    columns: tuple[str, ...] = RECORD_COLUMNS
    #: Records with offsets outside [first, end) are left out.
    first_offset: int = 0
    end_offset: int = END_OF_OFFSETS
    #: Under read_committed the records of `aborted` are left out. Where the last stable offset is, the caller knows.
    isolation: Isolation = "read_uncommitted"
    aborted: tuple[AbortedRange | tuple[int, int, int], ...] = ()
    #: Transaction markers are no data; with this they are rows all the same.
    include_control: bool = False
    verify_crc: bool = True
    #: "failfast" raises `DamagedLogError`; "permissive" passes over damaged batches, which the report counts.
    mode: Mode = "failfast"
    engine: Engine = "auto"
    #: For errors: the file, and the byte of it that the data begin with.
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
    """A piece of a log that is no good: its first byte in the file, its base offset as far as one can be read."""

    position: int
    offset: int | None
    size: int
    message: str


class DamagedLogError(Exception):
    """Bytes of a log that are not records. Names the file, the byte and the offset."""

    def __init__(self, file: str, damage: Damage) -> None:
        offset = "" if damage.offset is None else f", offset {damage.offset}"
        super().__init__(f"{file or 'log'}: byte {damage.position}{offset}: {damage.message}")
        self.file = file
        self.damage = damage

    def __reduce__(self) -> tuple[type["DamagedLogError"], tuple[str, Damage]]:
        return DamagedLogError, (self.file, self.damage)


@dataclass(slots=True)
class DecodeReport:
    """Counts of one or of many calls of `decode`, brought up to date before each batch of rows that it yields."""

    rows: int = 0
    #: Entries that gave rows, or could have; control batches and those outside the range do not count.
    batches: int = 0
    #: Bytes of whole entries that were passed. Less than the data when the last entry is cut short.
    consumed: int = 0
    #: Batches that were passed over under "permissive", or stretches of bytes that hold none.
    damaged_batches: int = 0
    damaged_bytes: int = 0
    #: The first thousand of them.
    damage: list[Damage] = field(default_factory=list[Damage])

    def add_damage(self, damage: Damage) -> None:
        """Count one damaged piece."""
        self.damaged_batches += 1
        self.damaged_bytes += damage.size
        if len(self.damage) < _DAMAGE_KEPT:
            self.damage.append(damage)
