"""One record of message format v2 (KIP-98; Kafka's `DefaultRecord`), and the two loops that read many of them.

Every integer is zig-zag encoded (see `varint`):

    length            varint    bytes that follow this field
    attributes        int8      no bit is in use
    timestamp delta   varlong   to the batch's base timestamp
    offset delta      varint    to the batch's base offset
    key               varint length (negative for null) and bytes
    value             varint length (negative for null) and bytes
    headers           varint count, then for each a key (never null) and a value, as above

`read_records` builds `Record`s, `walk_records` only checks. Both run once for each record, and a call per field would
cost more than the field: so both read the usual one-byte integers in line, and call for longer ones.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, cast

from minibroker_protocol.errors import DecodeError, EncodeError, InvalidRecordError
from minibroker_protocol.records.header import BatchHeader, TimestampType
from minibroker_protocol.records.varint import (
    CONTINUES,
    INT64_MAX,
    INT64_MIN,
    decode_varint,
    encode_varint,
    encode_varlong,
    finish_varint,
    finish_varlong,
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


def read_records(data: bytes, header: BatchHeader) -> Iterator[Record]:  # noqa: C901, PLR0912, PLR0915 - see above
    """Each record of a batch from the (decompressed) bytes behind its header.

    `InvalidRecordError` where those bytes are not `header.record_count` records and nothing else.
    """
    size = len(data)
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    timestamp_type = header.timestamp_type
    append_time = header.max_timestamp if timestamp_type is TimestampType.LOG_APPEND_TIME else None
    continues = CONTINUES
    new_record = make_record
    position = index = 0
    try:
        for index in range(header.record_count):  # noqa: B007 - the error handlers below name it
            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            end = position + (raw >> 1)
            if raw & 1 or end > size:
                _refuse_length(raw, size - position)

            position += 1
            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varlong(data, position, raw)
            timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
            if append_time is not None:
                timestamp = append_time
            elif not INT64_MIN <= timestamp <= INT64_MAX:
                timestamp = wrap_int64(timestamp)

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            offset = base_offset + ((raw >> 1) ^ -(raw & 1))

            # A slice that goes beyond the data comes out short; the position then tells.
            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            key = value = None
            if not raw & 1:
                start = position
                position += raw >> 1
                key = data[start:position]

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            if not raw & 1:
                start = position
                position += raw >> 1
                value = data[start:position]

            headers: Headers = ()
            if data[position]:
                headers, position = _read_headers(data, position)
            else:
                position += 1
            if position != end:
                _refuse_end(end, position)
            yield new_record((offset, timestamp, timestamp_type, key, value, headers))
    except IndexError:
        raise InvalidRecordError(f"record {index}: a field goes beyond the end of the batch") from None
    except DecodeError as error:
        raise InvalidRecordError(f"record {index}: {error}") from None
    check_nothing_left(header.record_count, size - position)


def walk_records(data: bytes | memoryview, position: int, count: int) -> int:  # noqa: C901, PLR0912, PLR0915 - as above
    """Check that `data` from `position` on is `count` records and nothing else. Builds nothing.

    Returns the largest timestamp delta (ms), or -1 when all of them are negative.

    `InvalidRecordError` where it is not, or where offset deltas are not 0, 1, 2 ... in order.
    """
    size = len(data)
    continues = CONTINUES
    index = 0
    largest = -1
    try:
        for index in range(count):
            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            end = position + (raw >> 1)
            if raw & 1 or end > size:
                _refuse_length(raw, size - position)

            raw = data[position + 1]
            position += 2
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varlong(data, position, raw)
            if raw > largest and not raw & 1:
                largest = raw

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            if raw != index + index:
                _refuse_offset_delta(raw)

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            if not raw & 1:
                position += raw >> 1

            raw = data[position]
            position += 1
            if raw >= continues:
                byte = data[position]
                if byte < continues:
                    raw += (byte << 7) - continues
                    position += 1
                else:
                    raw, position = finish_varint(data, position, raw)
            if not raw & 1:
                position += raw >> 1

            if data[position]:
                position = _walk_headers(data, position)
            else:
                position += 1
            if position != end:
                _refuse_end(end, position)
    except IndexError:
        raise InvalidRecordError(f"record {index}: a field goes beyond the end of the batch") from None
    except DecodeError as error:
        raise InvalidRecordError(f"record {index}: {error}") from None
    check_nothing_left(count, size - position)
    return largest >> 1


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
