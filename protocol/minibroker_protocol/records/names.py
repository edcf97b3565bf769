"""Kafka's names for what numbers in batches stand for, as its tool prints them."""

from struct import Struct
from typing import Final

from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_KEY,
    NO_SEQUENCE,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    increment_sequence,
)

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
"""By the second int16 of a control record's key (Kafka's `ControlRecordType`)."""
MARKERS: Final = CONTROL_TYPES[:2]
_UNKNOWN: Final = "UNKNOWN"
_MARKER_VALUE: Final = Struct(">hi")


def codec_name(header: BatchHeader) -> str:
    """The codec of a batch, also one that does not exist."""
    codec_id = header.attributes & CODEC_MASK
    return CODECS.get(codec_id, f"unknown({codec_id})")


def sequence_of(offset: int, header: BatchHeader) -> int:
    """The sequence number of the record at `offset` of a v2 batch, -1 when the batch has none."""
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return increment_sequence(header.base_sequence, offset - header.base_offset)


def control_type(key: bytes | None) -> tuple[str, int]:
    """Name and number of a control record's type by its key: int16 version, int16 type. -1 when the key is no such."""
    if key is None or len(key) < CONTROL_KEY.size:
        return _UNKNOWN, -1
    type_id: int = CONTROL_KEY.unpack_from(key)[1]
    return (CONTROL_TYPES[type_id] if 0 <= type_id < len(CONTROL_TYPES) else _UNKNOWN), type_id


def coordinator_epoch(value: bytes | None) -> int | None:
    """The coordinator epoch in a transaction marker's value: int16 version, int32 epoch. None where there is none."""
    if value is None or len(value) < _MARKER_VALUE.size:
        return None
    return int(_MARKER_VALUE.unpack_from(value)[1])
