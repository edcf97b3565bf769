"""Explains a log file in any message format."""

import zlib

from minibroker_protocol.errors import DecodeError, UnsupportedMagicError
from minibroker_protocol.fields.batches import add_header, message_node, record_nodes, wrapped_nodes
from minibroker_protocol.fields.notes import format_time
from minibroker_protocol.fields.tree import BATCH, COMPRESSED, ERROR, INT8, INT32, UINT32, Node
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress
from minibroker_protocol.records.header import MAGIC_AT, MAGIC_V2, CompressionCodec, codec_name
from minibroker_protocol.records.kafka07 import Kafka07Message, iter_messages
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_storage.dump.files import DumpFile, DumpOptions
from minibroker_storage.dump.logs import Entry, Tail, open_log
from minibroker_storage.explain.page import Page, Rows, create_cursor


def explain_log(page: Page, file: DumpFile, options: DumpOptions) -> None:
    """Explain every entry of a log. An unreadable entry is explained up to the error, followed by the error itself.

    Raises:
        OSError: the file cannot be read.
    """
    with open_log(file, options) as log:
        base = file.base_offset or 0
        page.write_heading(f"{file.path}: log, which begins at {'byte' if log.is_07 else 'offset'} {base}")
        page.write_table_head()
        for entry in log:
            if isinstance(entry, Tail):
                if options.max_bytes is None:
                    page.write_gap()
                    reason = entry.reason or "it is cut short"
                    page.write_fault(f"{entry.size} bytes at byte {entry.position} are not a whole batch: {reason}")
                return
            try:
                if log.is_07:
                    explain_message_07(page, entry.data, entry.position, base)
                else:
                    _explain_entry(page, entry)
            except DecodeError as error:
                page.write_fault(f"cannot be read on: {error}")


def _explain_entry(page: Page, entry: Entry) -> None:
    magic = entry.data[MAGIC_AT]
    if magic > MAGIC_V2:
        raise UnsupportedMagicError(f"at byte {entry.position}: magic {magic}, which no message format has")
    (explain_batch if magic == MAGIC_V2 else explain_message)(page, entry.data, entry.position)


def explain_batch(page: Page, data: memoryview, position: int) -> None:
    """Write a row for each field of the v2 batch at byte `position`.

    Raises:
        DecodeError: the batch cannot be decoded.
    """
    node = Node("batch", BATCH, 0, len(data))
    cursor = create_cursor(data)
    header = add_header(cursor, node)
    page.write_gap()
    page.write_heading(
        f"batch at byte {position}: format v2, offsets {header.base_offset} to {header.last_offset},"
        f" {header.size_in_bytes} bytes"
    )
    rows = Rows(page, data, position)
    rows.write(node)
    if header.codec is not CompressionCodec.NONE:
        payload = cursor.leaf("records", COMPRESSED, cursor.left, None, "RecordBatch.records")
        payload.note = f"compressed with {codec_name(header)}, all together"
        rows.write(payload)
        records = memoryview(RecordBatch(data).records_data())
        rows, cursor = _explain_decompressed(page, records), create_cursor(records)
    for index, record in enumerate(record_nodes(cursor, header)):
        if record.type == ERROR:
            raise DecodeError(record.value)
        page.write_heading(f"record {index} at {rows.position_text(record.start)}", level=1)
        rows.write(record)


def _explain_decompressed(page: Page, data: memoryview) -> Rows:
    page.write_heading(f"decompressed: {len(data)} bytes; positions with a plus sign count from the first", level=1)
    return Rows(page, data, mark="+")


def explain_message(page: Page, data: memoryview, position: int) -> None:
    """Write a row for each field of the v0 or v1 message at byte `position`, and for each field of its inner messages.

    Raises:
        DecodeError: the message cannot be decoded.
    """
    entry = LegacyRecordBatch(data)
    header = entry.header
    kind = "wrapper: messages compressed together" if entry.is_compressed else "message"
    page.write_gap()
    page.write_heading(
        f"{kind}, at byte {position}: format v{header.magic}, offset {header.base_offset}, {len(data)} bytes"
    )
    offset = "of the last message in it" if entry.is_compressed else "set by the broker"
    Rows(page, data, position).write(message_node(create_cursor(data), "message", header, offset, format_time))
    if not entry.is_compressed:
        return
    messages = memoryview(entry.records_data())
    rows = _explain_decompressed(page, messages)
    for index, message in enumerate(wrapped_nodes(create_cursor(messages), header)):
        if message.type == ERROR:
            page.write_fault(message.value)
            break
        page.write_heading(f"message {index} at {rows.position_text(message.start)}", level=1)
        rows.write(message)
    for _ in entry:  # Iterating over the messages also validates their offsets and magic bytes.
        pass


def explain_message_07(page: Page, data: memoryview, position: int, base_position: int) -> None:
    """Explain a message of Kafka 0.7, like explain_message().

    Args:
        page: the page to write to.
        data: the bytes of the message.
        position: the position of the message in the file.
        base_position: the address of the file's first byte in the whole log.
    """
    message = next(iter_messages(data, base_position=base_position + position, deep=False), None)
    if message is None:
        raise DecodeError("no whole message")
    page.write_gap()
    page.write_heading(f"message at byte {position}: Kafka 0.7, address {message.position}, {len(data)} bytes")
    _explain_fields_07(page, Rows(page, data, position), message)
    if not message.codec:
        return
    messages = decompress(message.codec, message.value, max_size=MAX_DECOMPRESSED_SIZE)
    page.write_heading(f"decompressed: {len(messages)} bytes; all in it has the address {message.position}", level=1)
    at = 0
    for index, inner in enumerate(iter_messages(messages, deep=False)):
        page.write_heading(f"message {index} at +{at}", level=1)
        end = at + INT32.size + int.from_bytes(messages[at : at + INT32.size], "big")
        _explain_fields_07(page, Rows(page, messages[at:end], at, "+"), inner)
        at = end
    if at < len(messages):
        page.write_fault(f"{len(messages) - at} bytes after the last message, at +{at}, are not a whole one")


def _explain_fields_07(page: Page, fields: Rows, message: Kafka07Message) -> None:
    fields.read_number("message size", INT32, "bytes that follow")
    fields.read_number("magic", INT8, "with attributes" if message.magic else "without attributes")
    if message.magic:
        fields.read_number("attributes", INT8, f"codec {message.codec.name.lower()}")
    fields.read_number("crc", UINT32, "CRC-32 of the value")
    fields.read_blob("value", fields.left, f"messages under {message.codec.name.lower()}" if message.codec else "")
    if not message.is_valid:
        page.write_fault(f"crc: stored {message.crc}, but the value has {zlib.crc32(message.value)}")
