"""Reading only the timestamps of the records in a v2 batch.

The first fields of a record are its length and timestamp, and all other fields are skipped. This takes less than half
the time of `read_records`, and no memory for records.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from minibroker_protocol.records.header import NO_TIMESTAMP, BatchHeader, TimestampType
from minibroker_protocol.records.record import Record, read_records
from minibroker_protocol.records.record_loop import NUMBER, RecordLoop, replace_body
from minibroker_protocol.records.varint import (
    INT64_MAX,
    INT64_MIN,
    MAX_VARINT_SIZE,
    MAX_VARLONG_SIZE,
    decode_varint,
    decode_varlong,
    wrap_int64,
)

MAX_FIRST_FIELDS_BYTES: Final = MAX_VARINT_SIZE + 1 + MAX_VARLONG_SIZE + MAX_VARINT_SIZE
"""Maximum size of the fields up to the offset delta: the length, the attributes and the two deltas, in bytes."""
TIMES_PER_STEP: Final = 4_096
"""Records whose timestamps are read per step, in a millisecond or two."""


class RecordTimes(NamedTuple):
    """The timestamps (ms) of consecutive records, and the byte range of these records."""

    times: list[int]
    start: int
    end: int


def read_times(data: bytes | memoryview, header: BatchHeader) -> Iterator[RecordTimes]:
    """Yield the timestamps of all records in `data`, `TIMES_PER_STEP` at a time.

    Fields after the timestamps are not checked.

    Raises:
        InvalidRecordError: the records are truncated.
    """
    position, remaining = 0, header.record_count
    by_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    base = header.base_timestamp
    while remaining > 0:
        count = min(remaining, TIMES_PER_STEP)
        remaining -= count
        deltas, end = _read_deltas(data, position, count)
        if by_append:
            times = [header.max_timestamp] * count
        else:
            times = [base + ((raw >> 1) ^ -(raw & 1)) for raw in deltas]
            if max(times) > INT64_MAX or min(times) < INT64_MIN:
                times = [wrap_int64(time) for time in times]
        yield RecordTimes(times, position, end)
        position = end


def time_and_offset(record: bytes | memoryview, header: BatchHeader) -> tuple[int, int]:
    """Return the timestamp (ms) and the offset of a record, given at least its first fields.

    Raises:
        DecodeError: a field is invalid or truncated.
    """
    _, position = decode_varint(record)
    delta, position = decode_varlong(record, position + 1)  # Skip the attributes.
    offset_delta, _ = decode_varint(record, position)
    is_by_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    time = header.max_timestamp if is_by_append else wrap_int64(header.base_timestamp + delta)
    return time, header.base_offset + offset_delta


def largest_timestamp(data: bytes | memoryview, header: BatchHeader) -> int:
    """Return the largest timestamp of the records, or `NO_TIMESTAMP` if none is larger.

    The errors are those of `read_times`.
    """
    return max([NO_TIMESTAMP, *[max(chunk.times) for chunk in read_times(data, header)]])


def records_in(data: bytes | memoryview, header: BatchHeader, times: RecordTimes) -> Iterator[Record]:
    """Yield the records whose timestamps are in `times`. The errors are those of `read_records`."""
    return read_records(bytes(data[times.start : times.end]), header._replace(record_count=len(times.times)))


def _read_deltas(data: bytes | memoryview, position: int, count: int) -> tuple[list[int], int]:
    """Read the raw timestamp deltas of `count` records. Return them and the position of the next record."""
    replace_body(_read_deltas, READ_DELTAS)
    return _read_deltas(data, position, count)


READ_DELTAS: Final = RecordLoop(
    "data, position, count",
    records="count",
    before="""\
deltas = []
note = deltas.append""",
    fields={
        "length": f"""\
end = position + (raw >> 1)
if raw & 1:
    raise InvalidRecordError(f"length {{{NUMBER}}}")""",
        "timestamp_delta": "note(raw)",
    },
    skips_rest=True,
    after="""\
if position > len(data):
    raise InvalidRecordError(f"record {index}: a field goes beyond the end of the batch")
return deltas, position""",
)
