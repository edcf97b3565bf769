"""The 61 bytes at the head of every v2 record batch (KIP-98; Kafka's `DefaultRecordBatch`).

    base offset            int64    0   assigned by the broker
    batch length           int32    8   bytes that follow this field
    partition leader epoch int32   12   assigned by the broker
    magic                  int8    16   2
    crc                    uint32  17   CRC-32C of everything that follows it
    attributes             int16   21   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control
    last offset delta      int32   23   kept by compaction, so it may exceed record count - 1
    base timestamp         int64   27   milliseconds
    max timestamp          int64   35   milliseconds
    producer id            int64   43
    producer epoch         int16   51
    base sequence          int32   53
    record count           int32   57

Base offset and partition leader epoch lie outside the CRC: a broker stamps a batch in place without reading the rest.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol.errors import DecodeError, UnsupportedCodecError
from minibroker_protocol.records.checksum import crc32c
from minibroker_protocol.records.varint import INT32_MAX

LOG_OVERHEAD: Final = 12
"""Bytes of base offset and length, the head that all message formats share."""
RECORD_BATCH_OVERHEAD: Final = 61
"""Bytes of a v2 batch before its records."""
MIN_MESSAGE_LENGTH: Final = 14
"""The least that any message format puts behind the length field (`LegacyRecord.RECORD_OVERHEAD_V0`)."""
LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_COVERS_FROM: Final = 21
"""The first byte under the CRC: the attributes."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

MAGIC_V2: Final = 2
CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20

HEADER: Final = Struct(">qiibIhiqqqhii")
"""All thirteen fields of `BatchHeader`, in wire order."""
_STAMPED_EPOCH_AT: Final = 12
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")


class CompressionCodec(IntEnum):
    """Bits 0-2 of a batch's attributes. ZSTD came with KIP-110 (Kafka 2.1)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Bit 3 of a batch's attributes (KIP-32): who set the timestamps, the producer or the broker."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


_CODECS: Final = tuple(CompressionCodec)
_TIMESTAMP_TYPES: Final = tuple(TimestampType)


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` after `sequence`: 0 follows 2**31 - 1 (Kafka's method of the same name)."""
    return (sequence + increment) & INT32_MAX


class BatchHeader(NamedTuple):
    """A decoded v2 header. Every field is as it stands on the wire; nothing has been checked."""

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
        """Bytes of the whole batch, by its length field."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record; after compaction that record may be gone, its offset is not."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> CompressionCodec:
        """The compression codec. `UnsupportedCodecError` for the ids 5 to 7, which Kafka has not given out."""
        codec_id = self.attributes & CODEC_MASK
        if codec_id >= len(_CODECS):
            raise UnsupportedCodecError(f"attributes: unknown compression codec {codec_id}")
        return _CODECS[codec_id]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the records carry their producer's time, or all of them `max_timestamp`."""
        return _TIMESTAMP_TYPES[1 if self.attributes & TIMESTAMP_TYPE_FLAG else 0]

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (KIP-98)."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker instead of data."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, which wraps to 0 after 2**31 - 1; `NO_SEQUENCE` when there is none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


make_header: Final[Callable[[tuple[int, ...]], BatchHeader]] = partial(cast("Any", tuple).__new__, BatchHeader)
"""`BatchHeader` from what `HEADER` unpacked: half the time of calling the class."""


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Decode the header at `position`. `DecodeError` when fewer than 61 bytes are there."""
    if len(buffer) - position < RECORD_BATCH_OVERHEAD:
        raise DecodeError(f"record batch header: {len(buffer) - position} of {RECORD_BATCH_OVERHEAD} bytes")
    return make_header(HEADER.unpack_from(buffer, position))


def compute_crc(batch: memoryview) -> int:
    """CRC-32C of one whole batch, from its attributes to its end. Copies nothing."""
    return crc32c(batch[CRC_COVERS_FROM:])


def stamp(batch: bytearray | memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Write the two fields that the broker assigns, in place. The CRC stays right, since both lie outside it."""
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, _STAMPED_EPOCH_AT, partition_leader_epoch)
