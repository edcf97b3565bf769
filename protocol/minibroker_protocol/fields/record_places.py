"""Finds the bytes of one record in its batch or message set."""

from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.batches import message_fields, record_nodes
from minibroker_protocol.fields.tree import NOT_OPENED, STRUCT, Budget, Cursor, Limits, Node
from minibroker_protocol.records.compression import decompress
from minibroker_protocol.records.header import (
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_LENGTH,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    read_header,
)
from minibroker_protocol.records.varint import decode_varint, decode_varlong

MAX_DECOMPRESSED_BYTES: Final = 1 << 24
"""Maximum decompressed size of a batch that is searched, in bytes."""
_MAX_RECORDS: Final = 100_000
"""Maximum record count of a batch that is searched. Searching a larger batch would take over 200 ms."""
_LIMITS: Final = Limits(record_fields=_MAX_RECORDS, decompressed=MAX_DECOMPRESSED_BYTES)


class RecordPlace(NamedTuple):
    """A record and the position of its bytes.

    Attributes:
        batch_start, batch_end: the range of the record's batch or message in the searched bytes.
        start, end: the range of the record. If `is_inside` is true, positions count from the first decompressed
            byte.
        timestamp: in milliseconds; -1 if the record has none.
    """

    batch_start: int
    batch_end: int
    start: int
    end: int
    is_inside: bool
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def find_record_in_batch(entry: memoryview, offset: int) -> RecordPlace | None:
    """Return the record with this offset in a batch or message from a log, or None if there is none.

    `entry` can extend beyond the batch.

    Raises:
        DecodeError: the batch is invalid or too large to search.
    """
    if entry[MAGIC_AT] < MAGIC_V2:
        messages = (message for message in _list_messages(entry) if message[2].value == offset)
        return next((_locate_message(*message) for message in messages), None)
    header = read_header(entry)
    if not header.base_offset <= offset <= header.last_offset:
        return None
    return _find_in_v2(entry, header, offset - header.base_offset)


def find_record_in_set(data: memoryview, number: int) -> RecordPlace | None:
    """Return the record whose offset will be `number` above the first one when this record set is appended.

    The result is None if there are fewer records. A truncated last batch is skipped.

    Raises:
        DecodeError: a batch is invalid or too large to search.
    """
    at = 0
    while len(data) - at > MAGIC_AT:
        size = LOG_OVERHEAD + int.from_bytes(data[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True)
        if not LOG_OVERHEAD + MIN_MESSAGE_LENGTH <= size <= len(data) - at:
            return None
        entry = data[at : at + size]
        if entry[MAGIC_AT] < MAGIC_V2:
            messages = _list_messages(entry)
            if number < len(messages):
                return _move(_locate_message(*messages[number]), at)
            number -= len(messages)
        else:
            header = read_header(entry)
            if number <= header.last_offset_delta:
                place = _find_in_v2(entry, header, number)
                return None if place is None else _move(place, at)
            number -= header.last_offset_delta + 1
        at += size
    return None


def _move(place: RecordPlace, by: int) -> RecordPlace:
    """Return a place moved by the position of its entry."""
    shift = 0 if place.is_inside else by
    return place._replace(
        batch_start=place.batch_start + by,
        batch_end=place.batch_end + by,
        start=place.start + shift,
        end=place.end + shift,
    )


def _find_in_v2(entry: memoryview, header: BatchHeader, delta: int) -> RecordPlace | None:
    if header.record_count > _MAX_RECORDS:
        raise DecodeError(f"record count: {header.record_count}, which is more than {_MAX_RECORDS}")
    size = header.size_in_bytes
    is_inside = header.codec is not CompressionCodec.NONE
    data, at = entry[:size], RECORD_BATCH_OVERHEAD
    if is_inside:
        packed = entry[RECORD_BATCH_OVERHEAD:size]
        data, at = memoryview(decompress(header.codec, packed, max_size=MAX_DECOMPRESSED_BYTES)), 0
    for _ in range(header.record_count):
        length, begin = decode_varint(data, at)
        _, offset_delta_at = decode_varlong(data, begin + 1)
        if decode_varint(data, offset_delta_at)[0] == delta:
            return _locate_v2_record(data[: begin + length], at, header, is_inside=is_inside)
        at = begin + length
    return None


def _locate_v2_record(data: memoryview, at: int, header: BatchHeader, *, is_inside: bool) -> RecordPlace:
    cursor = Cursor(data, at, len(data), Budget(_LIMITS.record_fields))
    node = next(record_nodes(cursor, header))
    if not node.children or node.children[-1].name == "(error)":
        raise DecodeError(f"record at byte {at}: it cannot be read")
    is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    delta = node.find("timestamp_delta").value
    return RecordPlace(
        0,
        header.size_in_bytes,
        node.start,
        node.end,
        is_inside,
        header.max_timestamp if is_stamped else header.base_timestamp + delta,
        _to_bytes(node.find("key")),
        _to_bytes(node.find("value")),
        headers_of(node),
    )


def headers_of(record: Node) -> tuple[tuple[str, bytes | None], ...]:
    """Return the complete headers of a record. A message in format v0 or v1 has none."""
    headers = [header for node in record.children or () if node.name == "headers" for header in node.children or ()]
    pairs = [{node.name: _to_bytes(node) for node in header.children or ()} for header in headers]
    return tuple(
        ((pair["header_key"] or b"").decode(errors="replace"), pair["header_value"])
        for pair in pairs
        if "header_value" in pair
    )


def _to_bytes(node: Node) -> bytes | None:
    return None if node.value is None else bytes(node.value)


def _list_messages(entry: memoryview) -> list[tuple[int, int, Node]]:
    """Return (start, end, node) of each message in a v0 or v1 entry.

    For messages in a wrapper, `start` is -1 and `end` is the end of the wrapper.
    """
    root = Node("messages", STRUCT, 0, len(entry))
    size = LOG_OVERHEAD + int.from_bytes(entry[LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
    if not LOG_OVERHEAD + MIN_MESSAGE_LENGTH <= size <= len(entry):
        raise DecodeError(f"message size: {size - LOG_OVERHEAD} with {len(entry)} bytes")
    cursor = Cursor(entry, 0, size, Budget(_LIMITS.record_fields))
    message_fields(cursor, _LIMITS, "[0]", root)
    outer_message = (root.children or [root])[0]
    for payload in outer_message.leaves():
        if payload.inside is not None:
            if payload.inside.children and payload.inside.children[-1].type == NOT_OPENED:
                raise DecodeError(payload.inside.children[-1].value)
            return [(-1, size, node) for node in payload.inside.children if node.value is not None]
        if payload.fault:
            raise DecodeError(payload.fault)
    return [(0, size, outer_message)]


def _locate_message(start: int, end: int, node: Node) -> RecordPlace:
    try:
        timestamp = int(node.find("timestamp").value)
    except KeyError:
        timestamp = -1
    key, value = _to_bytes(node.find("key")), _to_bytes(node.find("value"))
    return RecordPlace(0, end, node.start, node.end, start < 0, timestamp, key, value)
