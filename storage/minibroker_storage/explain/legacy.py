"""Explaining messages of formats v0 and v1, and of Kafka 0.7."""

import zlib

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records import (
    MAX_DECOMPRESSED_SIZE,
    BatchHeader,
    LegacyRecordBatch,
    Record,
    TimestampType,
    decompress,
    iter_batches,
)
from minibroker_protocol.records.header import MAGIC_V0
from minibroker_protocol.records.kafka07 import Kafka07Message, iter_messages
from minibroker_storage.dump.names import TIMESTAMP_TYPES, codec_name
from minibroker_storage.explain.page import INT8, INT32, INT64, UINT32, Fields, Meaning, Page, length_meaning, moment


def explain_message(page: Page, data: memoryview, position: int) -> None:
    """A row for each field of the log entry at byte `position`, and of what it holds if it is a wrapper.

    `DecodeError` where it cannot be read.
    """
    entry = LegacyRecordBatch(data)
    header = entry.header
    kind = "wrapper: messages compressed together" if entry.is_compressed else "message"
    page.gap()
    page.heading(f"{kind}, at byte {position}: format v{header.magic}, offset {header.base_offset}, {len(data)} bytes")
    offset = "of the last message in it" if entry.is_compressed else "set by the broker"
    _explain_fields(page, Fields(page, data, position), entry, offset, moment)
    if not entry.is_compressed:
        return
    messages = entry.records_data()
    timestamp: Meaning = "not in force: the wrapper's is" if header.timestamp_type else moment
    page.heading(f"decompressed: {len(messages)} bytes; positions with a plus sign count from the first", level=1)
    at = 0
    for index, (inner, record) in enumerate(zip(iter_batches(messages), entry, strict=True)):
        size = inner.header.size_in_bytes
        page.heading(f"message {index} at +{at}", level=1)
        assert isinstance(inner, LegacyRecordBatch)
        _explain_fields(page, Fields(page, inner.buffer, at, "+"), inner, _inner_offset(header, record), timestamp)
        at += size
    _check_end(page, messages, at)


def _inner_offset(wrapper: BatchHeader, record: Record) -> str:
    if wrapper.magic == MAGIC_V0:
        return "absolute, as always in v0"
    return f"relative: {record.offset} in the log"


def _explain_fields(page: Page, fields: Fields, entry: LegacyRecordBatch, offset: str, timestamp: Meaning) -> None:
    header = entry.header
    fields.number("offset", INT64, offset)
    fields.number("message size", INT32, "bytes that follow")
    fields.number("crc", UINT32, "CRC-32 of what follows")
    fields.number("magic", INT8, f"message format v{header.magic}")
    fields.number("attributes", INT8, lambda value: f"{_attributes(header)}; bits {value & 0xFF:b}")
    if header.magic != MAGIC_V0:
        fields.number("timestamp", INT64, timestamp)
    fields.blob("key", max(fields.number("key length", INT32, length_meaning("key")), 0))
    value_length = fields.number("value length", INT32, length_meaning("value"))
    fields.blob("value", max(value_length, 0), f"a message set under {codec_name(header)}" * entry.is_compressed)
    computed = zlib.crc32(entry.buffer[INT64.size + INT32.size + UINT32.size :])
    if computed != header.crc:
        page.fault(f"crc: stored {header.crc}, but the bytes have {computed}")


def _attributes(header: BatchHeader) -> str:
    codec = f"codec {codec_name(header)}"
    if header.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        return codec
    return f"{codec}, {TIMESTAMP_TYPES[header.timestamp_type]}"


def explain_message_07(page: Page, data: memoryview, position: int, base_position: int) -> None:
    """The same for a message of Kafka 0.7, in a file whose first byte has the address `base_position`."""
    message = next(iter_messages(data, base_position=base_position + position, deep=False), None)
    if message is None:
        raise DecodeError("no whole message")
    page.gap()
    page.heading(f"message at byte {position}: Kafka 0.7, address {message.position}, {len(data)} bytes")
    _explain_fields_07(page, Fields(page, data, position), message)
    if not message.codec:
        return
    messages = decompress(message.codec, message.value, max_size=MAX_DECOMPRESSED_SIZE)
    page.heading(f"decompressed: {len(messages)} bytes; all in it has the address {message.position}", level=1)
    at = 0
    for index, inner in enumerate(iter_messages(messages, deep=False)):
        page.heading(f"message {index} at +{at}", level=1)
        end = at + INT32.size + int.from_bytes(messages[at : at + INT32.size], "big")
        _explain_fields_07(page, Fields(page, messages[at:end], at, "+"), inner)
        at = end
    _check_end(page, messages, at)


def _check_end(page: Page, messages: bytes, at: int) -> None:
    if at < len(messages):
        page.fault(f"{len(messages) - at} bytes after the last message, at +{at}, are no whole one")


def _explain_fields_07(page: Page, fields: Fields, message: Kafka07Message) -> None:
    fields.number("message size", INT32, "bytes that follow")
    fields.number("magic", INT8, "with attributes" if message.magic else "without attributes")
    if message.magic:
        fields.number("attributes", INT8, f"codec {message.codec.name.lower()}")
    fields.number("crc", UINT32, "CRC-32 of the value")
    fields.blob("value", fields.left, f"messages under {message.codec.name.lower()}" if message.codec else "")
    if not message.is_valid:
        page.fault(f"crc: stored {message.crc}, but the value has {zlib.crc32(message.value)}")
