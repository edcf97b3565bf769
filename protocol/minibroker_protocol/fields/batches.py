"""The fields of v2 batches, of v0 and v1 messages, and of the messages inside compressed wrappers."""

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Final
from zlib import crc32

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields import tree
from minibroker_protocol.fields.tree import Budget, Cursor, DecompressedSpace, Limits, Node, Note, raise_decode_error
from minibroker_protocol.records.compression import decompress
from minibroker_protocol.records.header import (
    CODEC_MASK,
    CONTROL_KEY,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V2,
    MARKER_TYPES,
    MIN_MESSAGE_LENGTH,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionCodec,
    codec_name,
    compute_crc,
    control_type,
    read_entry_header,
    read_header,
)
from minibroker_protocol.records.varint import decode_varint

_CRC_FROM: Final = tree.INT64.size + tree.INT32.size + tree.UINT32.size


def message_fields(cursor: Cursor, limits: Limits, name: str, parent: Node) -> None:
    """Add the node of the message that fills the cursor's range. The message can be a wrapper with inner messages."""
    start = cursor.at
    try:
        header = read_entry_header(cursor.data[start : cursor.end])
    except DecodeError as error:
        parent.add(cursor.error_leaf(error))
        return
    is_wrapper = header.attributes & CODEC_MASK != 0
    offset = "of the last message in it" if is_wrapper else "set by the broker"
    node = parent.add(message_node(cursor, name, header, offset, tree.format_time))
    if is_wrapper and node.children and node.children[-1].name == "value":
        payload = (node.children[-1].children or node.children)[-1]
        _open_payload(cursor, payload, header, limits, lambda content: wrapped_nodes(content, header))


def message_node(cursor: Cursor, name: str, header: BatchHeader, offset: str, timestamp: Note) -> Node:
    """Return the node of a message. `offset` and `timestamp` are notes to attach to the fields with these names."""
    node = Node(name, "MESSAGE", cursor.at, cursor.end, header.base_offset, "Message")
    try:
        _add_fields(cursor, node, header, offset, timestamp)
        if cursor.left:
            node.add(cursor.remaining_leaf("(unknown)", tree.UNKNOWN, f"{cursor.left} bytes behind the value"))
    except DecodeError as error:
        node.add(cursor.error_leaf(error))
    return node


def _add_fields(cursor: Cursor, node: Node, header: BatchHeader, offset: str, timestamp: Note) -> None:
    computed = crc32(cursor.data[cursor.at + _CRC_FROM : cursor.end])
    node.add(cursor.number("offset", tree.INT64, "Message.offset", offset))
    node.add(cursor.number("message_size", tree.INT32, "Message.message_size", "bytes that follow"))
    crc = node.add(cursor.number("crc", tree.UINT32, "Message.crc", "CRC-32 of what follows"))
    if computed != header.crc:
        crc.fault = f"crc: stored {header.crc}, but the bytes have {computed}"
    node.add(cursor.number("magic", tree.INT8, "Message.magic", f"message format v{header.magic}"))
    bits = tree.message_attributes_note(header)
    node.add(
        cursor.number("attributes", tree.INT8, "Message.attributes", lambda value: f"{bits}; bits {value & 0xFF:b}")
    )
    if header.magic != MAGIC_V0:
        node.add(cursor.number("timestamp", tree.INT64, "Message.timestamp", timestamp))
    _add_bytes(cursor, node, "key", "Message.key", tree.INT32)
    value = _add_bytes(cursor, node, "value", "Message.value", tree.INT32)
    if header.attributes & CODEC_MASK and value.children is not None:
        for content in value.children[1:]:
            content.type = tree.COMPRESSED
            content.note = f"a message set under {codec_name(header)}"


def _open_payload(
    cursor: Cursor, payload: Node, header: BatchHeader, limits: Limits, read_nodes: Callable[[Cursor], Iterator[Node]]
) -> None:
    """Decompress a payload, and add the nodes of its content."""
    try:
        if payload.type != tree.COMPRESSED:
            raise_decode_error("value: none, in a compressed message")
        if header.magic != MAGIC_V2 and header.codec is CompressionCodec.ZSTD:
            raise_decode_error(f"attributes: a wrapper of format v{header.magic} may not be under zstd")
        view = cursor.data[payload.start : payload.end]
        data = decompress(header.codec, view, max_size=limits.decompressed, magic=header.magic)
    except DecodeError as error:
        payload.fault = str(error)
        return
    payload.inside = DecompressedSpace(data, [])
    payload.inside.children.extend(read_nodes(Cursor(memoryview(data), 0, len(data), cursor.budget)))


def wrapped_nodes(cursor: Cursor, wrapper: BatchHeader) -> Iterator[Node]:
    """Yield the nodes of the messages in a wrapper's decompressed bytes.

    The last node is a leaf for bytes that are not a message, if there are any.
    """
    last = _find_last_offset(cursor)
    base = wrapper.base_offset - last if wrapper.magic != MAGIC_V0 and wrapper.base_offset else 0
    timestamp: Note = "not in force: the wrapper's is" if wrapper.timestamp_type else tree.format_time
    index = 0
    while cursor.left:
        if cursor.is_used_up:
            yield cursor.unopened_leaf(f"{cursor.left} bytes of messages: the tree would be too large")
            return
        try:
            header = read_entry_header(cursor.data[cursor.at : cursor.end])
            message_cursor = cursor.sub_cursor(header.size_in_bytes, f"message {index}")
        except DecodeError:
            yield cursor.error_leaf(
                DecodeError(f"{cursor.left} bytes after the last message, at +{cursor.at}, are not a whole one")
            )
            return
        offset = f"relative: {base + header.base_offset} in the log"
        if wrapper.magic == MAGIC_V0:
            offset = "absolute, as always in v0"
        node = message_node(message_cursor, f"[{index}]", header, offset, timestamp)
        node.value = base + header.base_offset
        yield node
        index += 1


def _find_last_offset(cursor: Cursor) -> int:
    """Return the offset of the last complete message."""
    at, offset = cursor.at, 0
    while cursor.end - at > MAGIC_AT:
        (size,) = tree.INT32.unpack_from(cursor.data, at + LENGTH_AT)
        if not MIN_MESSAGE_LENGTH <= size <= cursor.end - at - LOG_OVERHEAD:
            break
        (offset,) = tree.INT64.unpack_from(cursor.data, at)
        at += LOG_OVERHEAD + size
    return offset


_RECORDS_PER_LEAF: Final = 1_000
_MARKER_VALUE: Final = tree.INT16.size + tree.INT32.size

_HEADER: Final[tuple[tuple[str, Struct, Callable[[BatchHeader], str]], ...]] = (
    ("base_offset", tree.INT64, lambda _: "set by the broker"),
    ("batch_length", tree.INT32, lambda _: "bytes that follow"),
    ("partition_leader_epoch", tree.INT32, lambda _: "set by the broker"),
    ("magic", tree.INT8, lambda _: "message format v2"),
    ("crc", tree.UINT32, lambda _: "CRC-32C of what follows"),
    ("attributes", tree.INT16, tree.attributes_note),
    ("last_offset_delta", tree.INT32, lambda header: f"the last offset is {header.last_offset}"),
    ("base_timestamp", tree.INT64, tree.base_timestamp_note),
    ("max_timestamp", tree.INT64, tree.max_timestamp_note),
    ("producer_id", tree.INT64, lambda header: "of an idempotent producer" if header.has_producer_id else "none"),
    ("producer_epoch", tree.INT16, lambda header: "its epoch" if header.has_producer_id else "none"),
    ("base_sequence", tree.INT32, tree.sequence_note),
    ("record_count", tree.INT32, lambda _: "records that follow"),
)
assert sum(layout.size for _, layout, _ in _HEADER) == RECORD_BATCH_OVERHEAD


def record_set(cursor: Cursor, limits: Limits, parent: Node, *, is_whole: bool = False) -> None:
    """Add the fields of all batches and messages in the cursor's range, in any format.

    A fetch can end within a batch. Such an incomplete batch becomes a `NOT_OPENED` node, or an `ERROR` node if
    `is_whole` is true.
    """
    index = 0
    while cursor.left:
        if cursor.is_used_up:
            parent.add(cursor.unopened_leaf(f"{cursor.left} bytes of batches: the tree would be too large"))
            return
        # The size is 0 if the length field is truncated.
        size = 0
        if cursor.left > MAGIC_AT:
            size = LOG_OVERHEAD + int(tree.INT32.unpack_from(cursor.data, cursor.at + LENGTH_AT)[0])
        error = ""
        if not size or size > cursor.left:
            if not is_whole:
                part = f"the beginning of a batch: {cursor.left} of {size} bytes" if size else f"{cursor.left} bytes"
                parent.add(cursor.unopened_leaf(f"{part}, cut by the fetch"))
                return
            error = f"batch: cut short after {cursor.left} bytes"
        elif size < MIN_MESSAGE_LENGTH + LOG_OVERHEAD:
            error = f"batch length: {size - LOG_OVERHEAD}, less than the smallest message takes"
        elif (magic := cursor.data[cursor.at + MAGIC_AT]) > MAGIC_V2:
            error = f"magic: {magic}, which no message format has"
        if error:
            parent.add(cursor.error_leaf(DecodeError(error)))
            return
        batch_cursor = cursor.sub_cursor(size, "batch")
        if cursor.data[batch_cursor.at + MAGIC_AT] == MAGIC_V2:
            node = parent.add(Node(f"[{index}]", tree.BATCH, batch_cursor.at, batch_cursor.end, about="RecordBatch"))
            batch_fields(batch_cursor, limits, node)
        else:
            message_fields(batch_cursor, limits, f"[{index}]", parent)
        index += 1


def batch_fields(cursor: Cursor, limits: Limits, node: Node) -> None:
    """Add the fields of the v2 batch that fills the cursor's range."""
    try:
        header = add_header(cursor, node)
        if header.codec is not CompressionCodec.NONE:
            payload = node.add(cursor.leaf("records", tree.COMPRESSED, cursor.left, None, "RecordBatch.records"))
            payload.note = f"compressed with {header.codec.name.lower()}, all together"
            _open_payload(
                cursor, payload, header, limits, lambda content: record_nodes(content, header, limits.first_record)
            )
            return
    except DecodeError as error:
        node.add(cursor.error_leaf(error))
        return
    for record in record_nodes(cursor, header, limits.first_record):
        node.add(record)


def add_header(cursor: Cursor, node: Node) -> BatchHeader:
    """Add the 13 fields of a batch's header.

    Raises:
        DecodeError: the header is truncated.
    """
    view = cursor.data[cursor.at : cursor.end]
    header = read_header(view)
    for name, layout, note in _HEADER:
        node.add(cursor.number(name, layout, f"RecordBatch.{name}", note(header)))
    computed = compute_crc(view)
    if computed != header.crc:
        node.find("crc").fault = f"crc: stored {header.crc}, but the bytes have {computed}"
    return header


def record_nodes(cursor: Cursor, header: BatchHeader, first: int = 0) -> Iterator[Node]:
    """Yield the nodes of the records in a batch's decompressed bytes.

    The last node is a leaf for bytes that are not a record, if there are any. Records before index `first` are
    skipped: a leaf stands for up to `_RECORDS_PER_LEAF` of them.
    """
    skipped = 0
    while skipped < min(first, header.record_count) and cursor.left:
        count = min(first - skipped, header.record_count - skipped, _RECORDS_PER_LEAF)
        yield _skip_records(cursor, skipped, count)
        skipped += count
    for index in range(skipped, max(header.record_count, 0)):
        if cursor.is_used_up:
            yield cursor.unopened_leaf(f"{header.record_count - index} records: the tree would be too large")
            return
        node = Node(f"[{index}]", tree.RECORD, cursor.at, cursor.at, about="Record")
        try:
            length = cursor.varint(tree.LENGTH, "Record.length", "bytes that follow")
            node.add(length)
            node.end = cursor.at
            record_cursor = cursor.sub_cursor(length.value, f"record {index}")
        except DecodeError as error:
            if node.children is None:
                yield cursor.error_leaf(error)
                return
            node.end = cursor.end
            node.add(cursor.error_leaf(error))
            yield node
            return
        node.end = record_cursor.end
        try:
            _add_record(record_cursor, header, node)
            if record_cursor.left:
                raise_decode_error(f"record {index}: {record_cursor.left} bytes are left")
        except DecodeError as error:
            node.add(record_cursor.error_leaf(error))
        yield node
    if header.record_count < 0 or cursor.left:
        yield cursor.error_leaf(
            DecodeError(f"record count: {header.record_count}, and then {cursor.left} bytes are left")
        )


def _skip_records(cursor: Cursor, first: int, count: int) -> Node:
    """Skip some records by their lengths and return a leaf for them.

    If one of them is invalid, the leaf is an error that contains all remaining bytes.
    """
    at = cursor.at
    try:
        for _ in range(count):
            length, begin = decode_varint(cursor.data[: cursor.end], at)
            at = begin + length
            if length < 0 or at > cursor.end:
                raise_decode_error("length")
    except DecodeError as error:
        return cursor.error_leaf(DecodeError(f"a record from {first} to {first + count - 1}: {error}"))
    start, cursor.at = cursor.at, at
    return Node("(not opened)", tree.NOT_OPENED, start, at, f"records {first} to {first + count - 1}")


def _add_record(cursor: Cursor, header: BatchHeader, node: Node) -> None:
    node.add(cursor.number("attributes", tree.INT8, "Record.attributes", "no bit is in use"))
    timestamp_note = partial(tree.record_timestamp_note, header=header)
    node.add(cursor.varint("timestamp_delta", "Record.timestamp_delta", timestamp_note, kind=tree.VARLONG))
    delta = node.add(
        cursor.varint("offset_delta", "Record.offset_delta", lambda delta: f"offset {header.base_offset + delta}")
    )
    node.value = header.base_offset + delta.value
    key = _add_bytes(cursor, node, "key", "Record.key")
    control_name = control_type(key.value and bytes(key.value))[0] if header.is_control else ""
    if header.is_control and key.value is not None and len(key.value) == CONTROL_KEY.size:
        version = ("version", tree.INT16, "ControlRecord.version", "of the control record's key")
        _open_marker(cursor, key, version, ("type", tree.INT16, "ControlRecord.type", control_name))
        node.note = control_name
    value = _add_bytes(cursor, node, "value", "Record.value")
    if control_name in MARKER_TYPES and value.value is not None and len(value.value) == _MARKER_VALUE:
        version = ("version", tree.INT16, "EndTransactionMarker.version", "of the marker's value")
        about = "EndTransactionMarker.coordinator_epoch"
        epoch = ("coordinator_epoch", tree.INT32, about, "of the coordinator that wrote it")
        _open_marker(cursor, value, version, epoch)
    _add_headers(cursor, node)


def _add_bytes(cursor: Cursor, parent: Node, name: str, about: str, layout: Struct | None = None) -> Node:
    """Add a length, and a value of that length. A negative length means null.

    The length is a varint, unless `layout` is given.
    """
    with cursor.open_node(parent, name, tree.BYTES, about) as node:
        length_about, note = f"{about}_length", tree.length_note(name.rpartition("_")[2])
        length = node.add(
            cursor.number(tree.LENGTH, layout, length_about, note)
            if layout
            else cursor.varint(tree.LENGTH, length_about, note)
        )
        if length.value > 0:
            content = cursor.data[cursor.at : cursor.at + length.value]
            node.add(cursor.leaf(tree.CONTENT, tree.BYTES, length.value, content, about))
    if length.value < 0:
        node.note = "null"
    else:
        node.value = cursor.data[length.end : node.end]
    return node


def _open_marker(cursor: Cursor, node: Node, *fields: tuple[str, Struct, str, str]) -> None:
    """Replace the bytes of a marker's key or value with `fields`: tuples of name, layout, `about` and note."""
    assert node.children is not None
    content = node.children.pop()
    content_cursor = Cursor(cursor.data, content.start, content.end, cursor.budget)
    for name, layout, about, note in fields:
        node.add(content_cursor.number(name, layout, about, note))


def _add_headers(cursor: Cursor, record: Node) -> None:
    headers = Node("headers", tree.ARRAY, cursor.at, cursor.at, about="Record.headers")
    count = headers.add(cursor.varint(tree.COUNT, "Record.header_count", "headers that follow"))
    headers.value, headers.end = count.value, cursor.at
    record.add(headers)
    if not 0 <= count.value <= cursor.left:
        raise DecodeError(f"header count: {count.value}, but {cursor.left} bytes are left")
    for index in range(count.value):
        try:
            with cursor.open_node(headers, f"[{index}]", tree.STRUCT, "Record.headers") as node:
                key = _add_bytes(cursor, node, "header_key", "Record.header_key")
                if key.value is None:
                    raise DecodeError("header key length: negative")
                key.type = "STRING"
                for content in (key.children or ())[1:]:
                    content.type = tree.TEXT
                _add_bytes(cursor, node, "header_value", "Record.header_value")
        finally:
            headers.end = cursor.at


def record_set_tree(data: memoryview, limits: Limits = tree.DEFAULT_LIMITS) -> Node:
    """Return the tree of a file's complete batches, in any format. Positions count from the first byte of the file."""
    root = Node("batches", tree.STRUCT, 0, len(data))
    record_set(Cursor(data, 0, len(data), Budget(limits.record_fields)), limits, root, is_whole=True)
    return root
