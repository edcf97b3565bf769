"""Notes that explain the values of fields in batches and messages."""

from datetime import UTC, datetime, timedelta
from typing import Final

from minibroker_protocol.fields.tree import Note
from minibroker_protocol.records.header import (
    DELETE_HORIZON_FLAG,
    NO_SEQUENCE,
    TIMESTAMP_TYPES,
    BatchHeader,
    TimestampType,
    codec_name,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(timestamp: int) -> str:
    """Format a timestamp in milliseconds as a date and time in UTC."""
    if timestamp == -1:
        return "no time"
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return "no time of our era"


def length_note(field: str) -> Note:
    """Return a function that describes the length of a field. A negative length means null."""
    return lambda length: f"bytes of the {field}" if length >= 0 else f"no {field}: null"


def attributes_note(header: BatchHeader) -> str:
    """Describe the attribute bits of a batch."""
    descriptions = [f"codec {codec_name(header)}", TIMESTAMP_TYPES[header.timestamp_type]]
    descriptions += ["transactional"] if header.is_transactional else []
    descriptions += ["control batch"] if header.is_control else []
    descriptions += ["delete horizon set"] if header.attributes & DELETE_HORIZON_FLAG else []
    return ", ".join(descriptions) + f"; bits {header.attributes & 0xFFFF:b}"


def message_attributes_note(header: BatchHeader) -> str:
    """Describe the attribute bits of a message."""
    codec = f"codec {codec_name(header)}"
    if header.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        return codec
    return f"{codec}, {TIMESTAMP_TYPES[header.timestamp_type]}"


def base_timestamp_note(header: BatchHeader) -> str:
    """Describe the base timestamp, to which the timestamp deltas are relative."""
    time = format_time(header.base_timestamp)
    if header.delete_horizon_ms is not None:
        return f"{time}: delete horizon, from when on tombstones may go; deltas count from it"
    return f"{time}; deltas count from it"


def max_timestamp_note(header: BatchHeader) -> str:
    """Describe the max timestamp: the highest one or, under LOG_APPEND_TIME, the timestamp of all records."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return f"{format_time(header.max_timestamp)}; all records have it"
    return f"{format_time(header.max_timestamp)}"


def sequence_note(header: BatchHeader) -> str:
    """Describe the sequence number of the last record."""
    if header.base_sequence == NO_SEQUENCE:
        return "no sequence numbers"
    return f"the last record has {header.last_sequence}"


def record_timestamp_note(delta: int, header: BatchHeader) -> str:
    """Describe the timestamp of a record."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return "not in force: max timestamp is"
    return f"{header.base_timestamp + delta}, {format_time(header.base_timestamp + delta)}"
