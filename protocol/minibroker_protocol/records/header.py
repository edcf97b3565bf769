"""Headers of log entries, in each of Kafka's three message formats.

The 61 bytes before the records of a v2 batch (KIP-98; Kafka's `DefaultRecordBatch`):

    base offset            int64    0   assigned by the broker
    batch length           int32    8   bytes that follow this field
    partition leader epoch int32   12   assigned by the broker
    magic                  int8    16   2
    crc                    uint32  17   CRC-32C of everything after it
    attributes             int16   21   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                     6 delete horizon (KIP-534): the base timestamp is one
    last offset delta      int32   23   unchanged by compaction, so it can exceed record count - 1
    base timestamp         int64   27   milliseconds
    max timestamp          int64   35   milliseconds
    producer id            int64   43
    producer epoch         int16   51
    base sequence          int32   53
    record count           int32   57

The CRC does not cover the base offset and the partition leader epoch, so a broker can set them without reading the
rest.

A v0 or v1 entry is a single message (Kafka's `LegacyRecord`). In a compressed set, it is a wrapper, and its value
contains the other messages:

    offset                 int64    0   in a wrapper: the offset of its last inner message
    message size           int32    8   bytes that follow this field
    crc                    uint32  12   CRC-32 of everything after it
    magic                  int8    16   0 or 1
    attributes             int8    17   bits 0-2 codec, 3 timestamp type (v1)
    timestamp              int64   18   milliseconds; in v1 (KIP-32) only
    key                    int32 length (negative for null) and bytes
    value                  int32 length (negative for null) and bytes

The offset (or base offset), the size and the magic have the same positions in all three formats, so `read_entry_header`
reads any of them.

The end of this module has Kafka's names for these numbers, as its dump tool prints them.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol.errors import DecodeError, UnsupportedCodecError, UnsupportedMagicError
from minibroker_protocol.records.varint import INT32_MAX


def load_crc32c() -> Any:
    """Return the compiled CRC-32C function of the `crc32c` package, if possible without running its `__init__`.

    The package's `__init__` reads the distribution's metadata, and imports `email`, `zipfile` and `socket` to do
    so. That costs about 20 ms at start-up. If the compiled module cannot be loaded on its own, because the package
    is in a zip file or has a new layout, the package is imported as usual.
    """
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.crc32c
    return import_module("crc32c").crc32c


crc32c: Callable[..., int] = load_crc32c()
"""Computes the CRC-32C (Castagnoli) of bytes, optionally continuing from the value in a second argument."""


LOG_OVERHEAD: Final = 12
"""The size of the base offset and the length, with which all message formats begin, in bytes."""
RECORD_BATCH_OVERHEAD: Final = 61
"""The size of a v2 header, in bytes."""
MIN_MESSAGE_LENGTH: Final = 14
"""The smallest value of the length field in any format (`LegacyRecord.RECORD_OVERHEAD_V0`)."""
MIN_MESSAGE_LENGTH_V1: Final = 22
"""The smallest value of the length field in format v1 (`LegacyRecord.RECORD_OVERHEAD_V1`)."""
LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_COVERS_FROM: Final = 21
"""The position of the first byte covered by the CRC: the attributes."""

NO_PARTITION_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1
"""The value of an unknown offset in responses and producer snapshots."""

MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_V2: Final = 2
CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40
"""Set if the base timestamp is a delete horizon: the log cleaner can remove tombstones after this time (KIP-534)."""

HEADER: Final = Struct(">qiibIhiqqqhii")
"""All 13 fields of `BatchHeader`, in wire order."""
_HEADER_V0: Final = Struct(">qiIBB")
_HEADER_V1: Final = Struct(">qiIBBq")
CONTROL_KEY: Final = Struct(">hh")
"""The key of a control record: its version and its type (Kafka's `ControlRecordType`)."""
UNKNOWN_RECORD_COUNT: Final = -1
"""The `record_count` of a v0 or v1 wrapper, whose records can be counted only after decompression."""
_STAMPED_EPOCH_AT: Final = 12
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")


class CompressionCodec(IntEnum):
    """The codec in bits 0-2 of a batch's attributes. ZSTD was added by KIP-110 (Kafka 2.1)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The timestamp type in bit 3 of a batch's attributes (KIP-32).

    CREATE_TIME means that the producer set the timestamps, and LOG_APPEND_TIME that the broker did.

    Records read from format v0, which has no timestamps, have NO_TIMESTAMP_TYPE. This value is never written.
    """

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


_CODECS: Final = tuple(CompressionCodec)


def increment_sequence(sequence: int, increment: int) -> int:
    """Add `increment` to a sequence number, wrapping from 2**31 - 1 to 0 (Kafka's `incrementSequence`)."""
    return (sequence + increment) & INT32_MAX


class BatchHeader(NamedTuple):
    """A decoded v2 header, with the field values as read from the wire and not validated.

    See `read_entry_header` for the field values of a v0 or v1 entry.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_in_bytes(self) -> int:
        """The size of the whole batch in bytes, according to its length field."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record. It stays the same even if compaction removes that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> CompressionCodec:
        """The compression codec.

        Raises:
            UnsupportedCodecError: the codec id is 5, 6 or 7, which Kafka has not assigned.
        """
        codec_id = self.attributes & CODEC_MASK
        if codec_id >= len(_CODECS):
            raise UnsupportedCodecError(f"attributes: unknown compression codec {codec_id}")
        return _CODECS[codec_id]

    @property
    def timestamp_type(self) -> TimestampType:
        """The timestamp type. Under LOG_APPEND_TIME, all records have the timestamp `max_timestamp`."""
        if self.attributes & TIMESTAMP_TYPE_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME if self.magic else TimestampType.NO_TIMESTAMP_TYPE

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (KIP-98)."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker instead of data."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which tombstones and markers can be removed (KIP-534), or None if no cleaner has set one.

        The delete horizon is stored in the base timestamp field, so the records' timestamp deltas are relative to it.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        """Whether the batch was written by an idempotent producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, or `NO_SEQUENCE`. Sequence numbers wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


ATTRIBUTES: Final = BatchHeader._fields.index("attributes")
LAST_OFFSET_DELTA: Final = BatchHeader._fields.index("last_offset_delta")
MAX_TIMESTAMP: Final = BatchHeader._fields.index("max_timestamp")
PRODUCER_ID: Final = BatchHeader._fields.index("producer_id")
"""The indexes of some fields, for headers in plain tuples."""

make_header: Final[Callable[[tuple[int, ...]], BatchHeader]] = partial(cast("Any", tuple).__new__, BatchHeader)
"""Makes a `BatchHeader` from the unpacked fields, in half the time of calling the class."""


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Decode the v2 batch header at `position`.

    Raises:
        DecodeError: fewer than 61 bytes are available.
    """
    if len(buffer) - position < RECORD_BATCH_OVERHEAD:
        raise DecodeError(f"record batch header: {len(buffer) - position} of {RECORD_BATCH_OVERHEAD} bytes")
    return make_header(HEADER.unpack_from(buffer, position))


def read_entry_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Decode the header of the log entry at `position`, in any message format.

    A v2 header is returned as by `read_header`. A v0 or v1 entry is described with the same fields, so that callers
    can treat all formats alike: `base_offset` and `last_offset` are the entry's offset, `batch_length` is its size
    field, and `crc` is its CRC-32. Both timestamp fields contain the entry's timestamp, or `NO_TIMESTAMP` in v0.
    `record_count` is 1, or `UNKNOWN_RECORD_COUNT` for a wrapper. `attributes` has only the bits that exist in the
    format. Fields that the format lacks are -1.

    Raises:
        DecodeError: there are fewer bytes than the smallest entry of the format (26 in v0, 34 in v1) or a v2 header
            (61).
        UnsupportedMagicError: the magic does not exist. This is a subclass of `DecodeError`.
    """
    try:
        magic = buffer[position + MAGIC_AT]
        if magic == MAGIC_V2:
            return make_header(HEADER.unpack_from(buffer, position))
    except (IndexError, StructError):
        raise DecodeError(f"log entry header: cut short after {len(buffer) - position} bytes") from None
    return _read_legacy_header(buffer, position, magic)


def _read_legacy_header(buffer: bytes | bytearray | memoryview, position: int, magic: int) -> BatchHeader:
    if magic > MAGIC_V1:
        raise UnsupportedMagicError(f"magic: {magic}")
    smallest = LOG_OVERHEAD + (MIN_MESSAGE_LENGTH_V1 if magic else MIN_MESSAGE_LENGTH)
    if len(buffer) - position < smallest:
        raise DecodeError(f"message of format v{magic}: {len(buffer) - position} of at least {smallest} bytes")
    if magic:
        offset, size, crc, _, attributes, timestamp = _HEADER_V1.unpack_from(buffer, position)
        attributes &= CODEC_MASK | TIMESTAMP_TYPE_FLAG
    else:
        offset, size, crc, _, attributes = _HEADER_V0.unpack_from(buffer, position)
        attributes &= CODEC_MASK
        timestamp = NO_TIMESTAMP
    count = UNKNOWN_RECORD_COUNT if attributes & CODEC_MASK else 1
    epoch = NO_PARTITION_LEADER_EPOCH
    no_producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return make_header((offset, size, epoch, magic, crc, attributes, 0, timestamp, timestamp, *no_producer, count))


def entry_bounds(buffer: memoryview) -> Iterator[tuple[int, int]]:
    """Yield the position and size of each entry of any format, using only its length field.

    The last entry may extend past the end of the buffer, but the buffer must contain its magic byte. A length of 0
    or less ends the iteration.
    """
    position, end = 0, len(buffer)
    while position + MAGIC_AT < end:
        (length,) = _INT32.unpack_from(buffer, position + LENGTH_AT)
        if length <= 0:
            return
        yield position, LOG_OVERHEAD + length
        position += LOG_OVERHEAD + length


def compute_crc(batch: memoryview) -> int:
    """Return the CRC-32C of a whole batch, computed from its attributes to its end without copying."""
    return crc32c(batch[CRC_COVERS_FROM:])


def stamp(batch: bytearray | memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Set a v2 batch's base offset and leader epoch in place. The CRC covers neither field.

    Entries of formats v0 and v1 must not be passed, because their CRC is where v2 has the leader epoch.
    """
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, _STAMPED_EPOCH_AT, partition_leader_epoch)


TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
CODECS: Final = {int(codec): codec.name.lower() for codec in CompressionCodec}
CONTROL_TYPES: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""Names of control record types, indexed by the second int16 of the key (Kafka's `ControlRecordType`)."""
MARKER_TYPES: Final = CONTROL_TYPES[:2]
_UNKNOWN: Final = "UNKNOWN"
_MARKER_VALUE: Final = Struct(">hi")


def codec_name(header: BatchHeader) -> str:
    """Return the name of a batch's codec, or "unknown(id)" for an id that Kafka has not assigned."""
    codec_id = header.attributes & CODEC_MASK
    return CODECS.get(codec_id, f"unknown({codec_id})")


def sequence_of(offset: int, header: BatchHeader) -> int:
    """Return the sequence number of the record at `offset`, or -1 if its v2 batch has no sequence numbers."""
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return increment_sequence(header.base_sequence, offset - header.base_offset)


def control_type(key: bytes | None) -> tuple[str, int]:
    """Return the name and the number of a control record's type, or ("UNKNOWN", -1) if the key is not a control key.

    The key is an int16 version followed by the int16 type.
    """
    if key is None or len(key) < CONTROL_KEY.size:
        return _UNKNOWN, -1
    type_id: int = CONTROL_KEY.unpack_from(key)[1]
    return (CONTROL_TYPES[type_id] if 0 <= type_id < len(CONTROL_TYPES) else _UNKNOWN), type_id


def coordinator_epoch(value: bytes | None) -> int | None:
    """Return the coordinator epoch in a transaction marker's value, or None if the value is missing or too short.

    The value is an int16 version followed by the int32 epoch.
    """
    if value is None or len(value) < _MARKER_VALUE.size:
        return None
    return int(_MARKER_VALUE.unpack_from(value)[1])
