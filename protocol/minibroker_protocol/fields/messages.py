"""The fields of messages of formats v0 and v1, and of what their wrappers hold."""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields import notes
from minibroker_protocol.fields.tree import (
    BYTES,
    COMPRESSED,
    CONTENT,
    INT8,
    INT32,
    INT64,
    LENGTH,
    MESSAGE,
    UINT32,
    UNKNOWN,
    Cursor,
    Limits,
    Node,
    Note,
    Space,
)
from minibroker_protocol.records.compression import decompress
from minibroker_protocol.records.header import (
    CODEC_MASK,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V0,
    MIN_MESSAGE_LENGTH,
    BatchHeader,
    CompressionCodec,
    codec_name,
    read_entry_header,
)

_CRC_FROM: Final = INT64.size + INT32.size + UINT32.size


def message_fields(cursor: Cursor, limits: Limits, name: str, parent: Node) -> None:
    """Add the node of one message, or of a wrapper and what it holds, which is all that the cursor has."""
    start = cursor.at
    try:
        header = read_entry_header(cursor.data[start : cursor.end])
    except DecodeError as error:
        parent.add(cursor.failed(error))
        return
    is_wrapper = header.attributes & CODEC_MASK != 0
    offset = "of the last message in it" if is_wrapper else "set by the broker"
    node = parent.add(message_node(cursor, name, header, offset, notes.moment))
    if is_wrapper and node.children and node.children[-1].name == "value":
        _open_wrapper(cursor, limits, node.children[-1], header)


def message_node(cursor: Cursor, name: str, header: BatchHeader, offset: str, timestamp: Note) -> Node:
    """The node of one message: `offset` and `timestamp` are the notes on these fields."""
    node = Node(name, MESSAGE, cursor.at, cursor.end, header.base_offset, "Message")
    try:
        _add_fields(cursor, node, header, offset, timestamp)
        if cursor.left:
            node.add(cursor.rest("(unknown)", UNKNOWN, f"{cursor.left} bytes behind the value"))
    except DecodeError as error:
        node.add(cursor.failed(error))
    return node


def _add_fields(cursor: Cursor, node: Node, header: BatchHeader, offset: str, timestamp: Note) -> None:
    computed = crc32(cursor.data[cursor.at + _CRC_FROM : cursor.end])
    node.add(cursor.number("offset", INT64, "Message.offset", offset))
    node.add(cursor.number("message_size", INT32, "Message.message_size", "bytes that follow"))
    crc = node.add(cursor.number("crc", UINT32, "Message.crc", "CRC-32 of what follows"))
    if computed != header.crc:
        crc.fault = f"crc: stored {header.crc}, but the bytes have {computed}"
    node.add(cursor.number("magic", INT8, "Message.magic", f"message format v{header.magic}"))
    bits = notes.message_attributes(header)
    node.add(cursor.number("attributes", INT8, "Message.attributes", lambda value: f"{bits}; bits {value & 0xFF:b}"))
    if header.magic != MAGIC_V0:
        node.add(cursor.number("timestamp", INT64, "Message.timestamp", timestamp))
    _add_bytes(cursor, node, "key")
    value = _add_bytes(cursor, node, "value")
    if header.attributes & CODEC_MASK and value.children is not None:
        for content in value.children[1:]:
            content.type = COMPRESSED
            content.note = f"a message set under {codec_name(header)}"


def _add_bytes(cursor: Cursor, parent: Node, name: str) -> Node:
    node = parent.add(Node(name, BYTES, cursor.at, cursor.at, about=f"Message.{name}"))
    try:
        length = node.add(cursor.number(LENGTH, INT32, f"Message.{name}_length", notes.length_note(name)))
        if length.value > 0:
            view = cursor.data[cursor.at : cursor.at + length.value]
            node.add(cursor.leaf(CONTENT, BYTES, length.value, view, f"Message.{name}"))
    finally:
        node.end = cursor.at
    if length.value < 0:
        node.note = "null"
    else:
        node.value = cursor.data[length.end : node.end]
    return node


def _open_wrapper(cursor: Cursor, limits: Limits, value: Node, header: BatchHeader) -> None:
    payload = (value.children or [value])[-1]
    try:
        data = _decompressed(payload, header, limits)
    except DecodeError as error:
        payload.fault = str(error)
        return
    payload.inside = Space(data, [])
    inner = Cursor(memoryview(data), 0, len(data), cursor.budget)
    payload.inside.children.extend(wrapped_nodes(inner, header))


def _decompressed(payload: Node, header: BatchHeader, limits: Limits) -> bytes:
    if payload.type != COMPRESSED:
        raise DecodeError("value: none, in a compressed message")
    if header.codec is CompressionCodec.ZSTD:
        raise DecodeError(f"attributes: a wrapper of format v{header.magic} may not be under zstd")
    return decompress(header.codec, payload.value, max_size=limits.decompressed, magic=header.magic)


def wrapped_nodes(cursor: Cursor, wrapper: BatchHeader) -> Iterator[Node]:
    """The messages of a wrapper, from its decompressed bytes; a leaf at the end for bytes that are no message."""
    last = _last_offset(cursor)
    base = wrapper.base_offset - last if wrapper.magic != MAGIC_V0 and wrapper.base_offset else 0
    timestamp: Note = "not in force: the wrapper's is" if wrapper.timestamp_type else notes.moment
    index = 0
    while cursor.left:
        if cursor.is_used_up:
            yield cursor.not_opened(f"{cursor.left} bytes of messages: the tree would be too large")
            return
        try:
            header = read_entry_header(cursor.data[cursor.at : cursor.end])
            part = cursor.part(header.size_in_bytes, f"message {index}")
        except DecodeError:
            yield cursor.failed(
                DecodeError(f"{cursor.left} bytes after the last message, at +{cursor.at}, are not a whole one")
            )
            return
        offset = f"relative: {base + header.base_offset} in the log"
        if wrapper.magic == MAGIC_V0:
            offset = "absolute, as always in v0"
        node = message_node(part, f"[{index}]", header, offset, timestamp)
        node.value = base + header.base_offset
        yield node
        index += 1


def _last_offset(cursor: Cursor) -> int:
    """The offset of the last whole message."""
    at, offset = cursor.at, 0
    while cursor.end - at > MAGIC_AT:
        (size,) = INT32.unpack_from(cursor.data, at + LENGTH_AT)
        if not MIN_MESSAGE_LENGTH <= size <= cursor.end - at - LOG_OVERHEAD:
            break
        (offset,) = INT64.unpack_from(cursor.data, at)
        at += LOG_OVERHEAD + size
    return offset
