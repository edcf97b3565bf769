"""One record of message format v2 (KIP-98; Kafka's `DefaultRecord`), and the loops that read and check many of them.

Every integer is zig-zag encoded (see `varint`):

    length            varint    bytes that follow this field
    attributes        int8      no bit is in use
    timestamp delta   varlong   to the batch's base timestamp
    offset delta      varint    to the batch's base offset
    key               varint length (negative for null) and bytes
    value             varint length (negative for null) and bytes
    headers           varint count, then for each a key (never null) and a value, as above

`read_records` builds `Record`s, `walk_records` only checks. Their code is generated, see `record_loop`. `record_runs`
checks many records at once.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, cast

from minibroker_protocol.errors import EncodeError, InvalidRecordError
from minibroker_protocol.records.header import BatchHeader, TimestampType
from minibroker_protocol.records.record_loop import NUMBER, RecordLoop, become
from minibroker_protocol.records.varint import (
    INT64_MAX,
    INT64_MIN,
    decode_varint,
    encode_varint,
    encode_varlong,
    wrap_int64,
)

MIN_RECORD_SIZE: Final = 7
"""Bytes of the smallest record: each of the seven fields takes one."""

_HEADER_KEY_ERRORS: Final = "surrogateescape"
"""Kafka never checks that a header's key is UTF-8. Read and written so, other bytes come out as they went in."""

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record with its absolute offset and its timestamp in milliseconds."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record to be written; its offset is its place in the batch. The timestamp is in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


make_record: Final[Callable[[tuple[Any, ...]], Record]] = partial(cast("Any", tuple).__new__, Record)
"""`Record` from its fields: half the time of calling the class."""


def read_records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Each record of a batch from the (decompressed) bytes behind its header.

    `InvalidRecordError` where those bytes are not `header.record_count` records and nothing else.
    """
    become(read_records, READ_RECORDS)
    yield from read_records(data, header)  # a generator, as the generated function is


def walk_records(data: bytes | memoryview, position: int, count: int, first: int = 0) -> int:
    """Check that `data` from `position` on is `count` records and nothing else. Builds nothing.

    `first` of the `count` records stand before `position` and were checked.

    Returns the largest timestamp delta (ms), or -1 when all of them are negative.

    `InvalidRecordError` where it is not, or where offset deltas are not `first`, `first` + 1 ... in order.
    """
    become(walk_records, WALK_RECORDS)
    return walk_records(data, position, count, first)


def check_nothing_left(count: int, left: int) -> None:
    """`InvalidRecordError` when bytes follow the last record."""
    if left:
        raise InvalidRecordError(f"record count: {count}, but {left} bytes follow the last of them")


def _read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """The headers whose count is at `position`, and the position after them."""
    count, position = _header_count(data, position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = _header_key_length(data, position)
        key = str(data[position : position + length], "utf-8", _HEADER_KEY_ERRORS)
        length, position = decode_varint(data, position + length)
        if length < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[position : position + length]))
            position += length
    return tuple(headers), position


def _walk_headers(data: bytes | memoryview, position: int) -> int:
    """The position after the headers whose count is at `position`."""
    count, position = _header_count(data, position)
    for _ in range(count):
        length, position = _header_key_length(data, position)
        length, position = decode_varint(data, position + length)
        position += max(length, 0)
    return position


def _header_count(data: bytes | memoryview, position: int) -> tuple[int, int]:
    count, position = decode_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise InvalidRecordError(f"header count: {count}, but {len(data) - position} bytes are left")
    return count, position


def _header_key_length(data: bytes | memoryview, position: int) -> tuple[int, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        raise InvalidRecordError(f"header key length: {length}")
    return length, position


def _refuse_length(raw: int, left: int) -> NoReturn:
    raise InvalidRecordError(f"length: {(raw >> 1) ^ -(raw & 1)}, but {left} bytes are left")


def _refuse_end(end: int, position: int) -> NoReturn:
    raise InvalidRecordError(f"length: it ends at byte {end}, its fields at byte {position}")


def _refuse_offset_delta(raw: int) -> NoReturn:
    raise InvalidRecordError(f"offset delta: {(raw >> 1) ^ -(raw & 1)}, out of order")


_CHECK_LENGTH: Final = """\
end = position + (raw >> 1)
if raw & 1 or end > size:
    refuse_length(raw, size - position)"""
_CHECK_END: Final = """\
if position != end:
    refuse_end(end, position)"""
_REFUSALS: Final = {
    "refuse_length": _refuse_length,
    "refuse_end": _refuse_end,
    "refuse_offset_delta": _refuse_offset_delta,
    "check_nothing_left": check_nothing_left,
}

READ_RECORDS: Final = RecordLoop(
    "data, header",
    records="header.record_count",
    before="""\
size = len(data)
base_offset = header.base_offset
base_timestamp = header.base_timestamp
timestamp_type = header.timestamp_type
append_time = header.max_timestamp if timestamp_type is LOG_APPEND_TIME else None
new_record = make_record
position = 0""",
    fields={
        "length": _CHECK_LENGTH,
        "timestamp_delta": f"""\
timestamp = base_timestamp + ({NUMBER})
if append_time is not None:
    timestamp = append_time
elif not {INT64_MIN} <= timestamp <= {INT64_MAX}:
    timestamp = wrap_int64(timestamp)""",
        "offset_delta": f"offset = base_offset + ({NUMBER})",
        "key": "",
        "value": "",
        "headers": """\
if data[position]:
    headers, position = read_headers(data, position)
else:
    headers = ()
    position += 1""",
    },
    each=f"""\
{_CHECK_END}
yield new_record((offset, timestamp, timestamp_type, key, value, headers))""",
    after="check_nothing_left(header.record_count, size - position)",
    names={
        **_REFUSALS,
        "LOG_APPEND_TIME": TimestampType.LOG_APPEND_TIME,
        "make_record": make_record,
        "read_headers": _read_headers,
        "wrap_int64": wrap_int64,
    },
)
WALK_RECORDS: Final = RecordLoop(
    "data, position, count, first",
    records="first, count",
    before="""\
size = len(data)
largest = -1""",
    fields={
        "length": _CHECK_LENGTH,
        "timestamp_delta": """\
if raw > largest and not raw & 1:
    largest = raw""",
        "offset_delta": """\
if raw != index + index:
    refuse_offset_delta(raw)""",
        "headers": """\
if data[position]:
    position = walk_headers(data, position)
else:
    position += 1""",
    },
    each=_CHECK_END,
    after="""\
check_nothing_left(count, size - position)
return largest >> 1""",
    names={**_REFUSALS, "walk_headers": _walk_headers},
)

_NO_HEADERS: Final = encode_varint(0)
_NULL: Final = encode_varint(-1)


def encode_record(offset_delta: int, timestamp_delta: int, record: NewRecord) -> bytes:
    """One record with its length. `EncodeError` when a field does not fit its type."""
    key, value, _, headers = record
    body = b"".join(
        (
            b"\x00",
            encode_varlong(timestamp_delta),
            encode_varint(offset_delta),
            _NULL if key is None else encode_varint(len(key)) + key,
            _NULL if value is None else encode_varint(len(value)) + value,
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return encode_varint(len(body)) + body


def _encode_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    parts: list[bytes] = []
    for name, value in headers:
        try:
            key = name.encode("utf-8", _HEADER_KEY_ERRORS)
        except UnicodeEncodeError as error:
            raise EncodeError(f"header key: {name!r} is not text: {error.reason}") from None
        parts += (encode_varint(len(key)), key)
        parts.append(_NULL if value is None else encode_varint(len(value)) + value)
    return encode_varint(len(parts) // 3) + b"".join(parts)
