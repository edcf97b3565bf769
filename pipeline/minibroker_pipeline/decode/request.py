"""A request to the decoder, and its report besides the rows."""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from minibroker_pipeline.decode.schema import RECORD_COLUMNS, schema_of
from minibroker_protocol.records import MAX_DECOMPRESSED_SIZE

Engine = Literal["auto", "numba", "numpy", "plain"]
Isolation = Literal["read_uncommitted", "read_committed"]
Mode = Literal["failfast", "permissive"]

ENGINES: Final[tuple[Engine, ...]] = ("auto", "numba", "numpy", "plain")
END_OF_OFFSETS: Final = 2**63 - 1
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records that become one Arrow batch. With a quarter of it decoding is a tenth slower, more gains nothing."""
_DAMAGE_KEPT: Final = 1000


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
    #: Names of `schema.RECORD_COLUMNS`, `HEADERS_COLUMN` and `BATCH_COLUMNS`, in the order that the rows shall have.
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
        if self.engine not in ENGINES:
            raise ValueError(f"engine: {self.engine!r} is not one of {', '.join(ENGINES)}")
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
