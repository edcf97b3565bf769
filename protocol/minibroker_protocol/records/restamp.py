"""Sets a batch's timestamp type, max timestamp and checksum in place.

Under LOG_APPEND_TIME, setting the max timestamp gives every record of a batch or wrapper the broker's time, because
readers then ignore the records' own timestamps (KIP-32). Under CREATE_TIME, it corrects the producer's max timestamp.
Kafka's `MutableRecordBatch.setMaxTimestamp` does the same.
"""

import zlib
from struct import Struct
from typing import Final

from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_AT,
    DELETE_HORIZON_FLAG,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V2,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    compute_crc,
)

_KEPT_ATTRIBUTES: Final = CODEC_MASK | TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_LEGACY_CRC_AT: Final = 12
_LEGACY_ATTRIBUTES_AT: Final = 17
_ATTRIBUTES: Final = Struct(">h")
_INT64: Final = Struct(">q")
_UINT32: Final = Struct(">I")
_LEGACY_STAMP: Final = Struct(">Bq")
"""The attributes and the timestamp of a v1 message."""


def stamp_header(header: BatchHeader, timestamp_type: TimestampType, max_timestamp: int) -> BatchHeader:
    """Return the header with this type and time, and the unchanged CRC. Unused attribute bits are cleared."""
    attributes = header.attributes & _KEPT_ATTRIBUTES
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
    if header.magic == MAGIC_V2:
        return header._replace(attributes=attributes, max_timestamp=max_timestamp)
    return header._replace(attributes=attributes, base_timestamp=max_timestamp, max_timestamp=max_timestamp)


def restamp(
    entry: bytearray | memoryview, header: BatchHeader, timestamp_type: TimestampType, max_timestamp: int
) -> BatchHeader:
    """Set the timestamp type and max timestamp of the batch or message with this header. Return the new header.

    Nothing is written if both are already set, or if the format is v0, which has no timestamps.
    """
    if header.magic == MAGIC_V0 or (header.timestamp_type, header.max_timestamp) == (timestamp_type, max_timestamp):
        return header
    new = stamp_header(header, timestamp_type, max_timestamp)
    with memoryview(entry) as view:
        if header.magic == MAGIC_V2:
            _ATTRIBUTES.pack_into(view, _ATTRIBUTES_AT, new.attributes)
            _INT64.pack_into(view, _MAX_TIMESTAMP_AT, max_timestamp)
            crc = compute_crc(view)
            _UINT32.pack_into(view, CRC_AT, crc)
        else:
            _LEGACY_STAMP.pack_into(view, _LEGACY_ATTRIBUTES_AT, new.attributes, max_timestamp)
            crc = zlib.crc32(view[MAGIC_AT:])
            _UINT32.pack_into(view, _LEGACY_CRC_AT, crc)
    return new._replace(crc=crc)
