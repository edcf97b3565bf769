"""Explaining v2 record batches."""

from collections.abc import Callable
from struct import Struct
from typing import Final

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records import BatchHeader, CompressionCodec, RecordBatch, TimestampType, compute_crc
from minibroker_protocol.records.header import DELETE_HORIZON_FLAG, NO_SEQUENCE, RECORD_BATCH_OVERHEAD
from minibroker_storage.dump.names import MARKERS, TIMESTAMP_TYPES, codec_name, control_type
from minibroker_storage.explain.page import INT8, INT16, INT32, INT64, UINT32, Fields, Page, length_meaning, moment

_MARKER_KEY: Final = INT16.size * 2
_MARKER_VALUE: Final = INT16.size + INT32.size


def explain_batch(page: Page, data: memoryview, position: int) -> None:
    """A row for each field of the batch that starts at byte `position`. `DecodeError` where it cannot be read."""
    batch = RecordBatch(data)
    header = batch.header
    page.gap()
    page.heading(
        f"batch at byte {position}: format v2, offsets {header.base_offset} to {header.last_offset},"
        f" {header.size_in_bytes} bytes",
    )
    fields = Fields(page, data, position)
    computed = compute_crc(data)
    for name, layout, meaning in _HEADER:
        fields.number(name, layout, meaning(header))
    if computed != header.crc:
        page.fault(f"crc: stored {header.crc}, but the bytes have {computed}")
    if header.codec is not CompressionCodec.NONE:
        fields.blob("records", fields.left, f"compressed with {codec_name(header)}, all together")
        records = batch.records_data()
        page.heading(f"decompressed: {len(records)} bytes; positions with a plus sign count from the first", level=1)
        fields = Fields(page, records, 0, "+")
    for index in range(header.record_count):
        _explain_record(page, fields, index, header)
    if header.record_count < 0 or fields.left:
        page.fault(f"record count: {header.record_count}, and then {fields.left} bytes are left")


def _attributes(header: BatchHeader) -> str:
    parts = [f"codec {codec_name(header)}", TIMESTAMP_TYPES[header.timestamp_type]]
    parts += ["transactional"] if header.is_transactional else []
    parts += ["control batch"] if header.is_control else []
    parts += ["delete horizon set"] if header.attributes & DELETE_HORIZON_FLAG else []
    return ", ".join(parts) + f"; bits {header.attributes & 0xFFFF:b}"


def _base_timestamp(header: BatchHeader) -> str:
    if header.delete_horizon_ms is not None:
        return f"{moment(header.base_timestamp)}: delete horizon, from when on tombstones may go; deltas count from it"
    return f"{moment(header.base_timestamp)}; deltas count from it"


def _max_timestamp(header: BatchHeader) -> str:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return f"{moment(header.max_timestamp)}; all records have it"
    return f"{moment(header.max_timestamp)}"


def _sequence(header: BatchHeader) -> str:
    if header.base_sequence == NO_SEQUENCE:
        return "no sequence numbers"
    return f"the last record has {header.last_sequence}"


_HEADER: Final[tuple[tuple[str, Struct, Callable[[BatchHeader], str]], ...]] = (
    ("base offset", INT64, lambda _: "set by the broker"),
    ("batch length", INT32, lambda _: "bytes that follow"),
    ("partition leader epoch", INT32, lambda _: "set by the broker"),
    ("magic", INT8, lambda _: "message format v2"),
    ("crc", UINT32, lambda _: "CRC-32C of what follows"),
    ("attributes", INT16, _attributes),
    ("last offset delta", INT32, lambda header: f"the last offset is {header.last_offset}"),
    ("base timestamp", INT64, _base_timestamp),
    ("max timestamp", INT64, _max_timestamp),
    ("producer id", INT64, lambda header: "of an idempotent producer" if header.has_producer_id else "none"),
    ("producer epoch", INT16, lambda header: "its epoch" if header.has_producer_id else "none"),
    ("base sequence", INT32, _sequence),
    ("record count", INT32, lambda _: "records that follow"),
)
assert sum(layout.size for _, layout, _ in _HEADER) == RECORD_BATCH_OVERHEAD


def _explain_record(page: Page, fields: Fields, index: int, header: BatchHeader) -> None:
    page.heading(f"record {index} at {fields.where}", level=1)
    length = fields.varint("length", "bytes that follow")
    record = fields.part(f"record {index}", length)
    record.number("attributes", INT8, "no bit is in use")
    record.varlong("timestamp delta", lambda delta: _timestamp(delta, header))
    record.varint("offset delta", lambda delta: f"offset {header.base_offset + delta}")
    key_length = record.varint("key length", length_meaning("key"))
    key = b""
    if header.is_control and key_length == _MARKER_KEY:
        key = _explain_marker_key(record)
    else:
        record.blob("key", max(key_length, 0))
    value_length = record.varint("value length", length_meaning("value"))
    if key and control_type(key)[0] in MARKERS and value_length == _MARKER_VALUE:
        record.number("version", INT16, "of the marker's value")
        record.number("coordinator epoch", INT32, "of the coordinator that wrote it")
    else:
        record.blob("value", max(value_length, 0))
    _explain_headers(record)
    if record.left:
        raise DecodeError(f"record {index}: {record.left} bytes are left at {record.where}")


def _explain_marker_key(record: Fields) -> bytes:
    version = record.number("version", INT16, "of the control record's key")
    type_id = record.number("type", INT16, lambda type_id: control_type(bytes(2) + INT16.pack(type_id))[0])
    return INT16.pack(version) + INT16.pack(type_id)


def _explain_headers(record: Fields) -> None:
    count = record.varint("header count", "headers that follow")
    for _ in range(count):
        record.blob("header key", record.varint("header key length", "bytes of the key"))
        record.blob("header value", max(record.varint("header value length", length_meaning("value")), 0))


def _timestamp(delta: int, header: BatchHeader) -> str:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return "not in force: max timestamp is"
    return f"{header.base_timestamp + delta}, {moment(header.base_timestamp + delta)}"
