"""The tree of fields, and the cursor that reads bytes and creates the nodes."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, NamedTuple, NoReturn

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.primitives import read_uvarint
from minibroker_protocol.records.header import (
    DELETE_HORIZON_FLAG,
    NO_SEQUENCE,
    TIMESTAMP_TYPES,
    BatchHeader,
    TimestampType,
    codec_name,
)
from minibroker_protocol.records.varint import decode_varint, decode_varlong

ARRAY: Final = "ARRAY"
STRUCT: Final = "STRUCT"
TAGGED_FIELDS: Final = "TAGGED_FIELDS"
BATCH: Final = "BATCH"
RECORD: Final = "RECORD"
VARINT: Final = "VARINT"
VARLONG: Final = "VARLONG"
BYTES: Final = "BYTES"
TEXT: Final = "TEXT"
"""The bytes of a text after its length."""
COMPRESSED: Final = "COMPRESSED"
ERROR: Final = "ERROR"
"""Invalid bytes, possibly none; the value is the reason."""
NOT_OPENED: Final = "NOT_OPENED"
"""Bytes that were not read because the tree would be too large. The value describes the bytes."""
UNKNOWN: Final = "UNKNOWN"
"""Bytes after the last field, which belong to no field."""

LENGTH: Final = "(length)"
COUNT: Final = "(count)"
TAG: Final = "(tag)"
SIZE: Final = "(size)"
PRESENCE: Final = "(presence)"
CONTENT: Final = "(content)"

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
UINT32: Final = Struct(">I")
INT64: Final = Struct(">q")
_TYPES: Final = {INT8: "INT8", INT16: "INT16", INT32: "INT32", UINT32: "UINT32", INT64: "INT64"}

_MAX_EXCESS_LEAVES: Final = 2_000
"""The number of leaves that a record or structure is allowed to have after the limit is reached."""

Note = str | Callable[[int], str]
"""A remark on a number: a fixed text, or a function of the value."""


class Limits(NamedTuple):
    """Limits for the size of a tree.

    Attributes:
        fields: maximum number of leaves of a message, without its records.
        record_fields: maximum number of leaves of all records of a message.
        decompressed: maximum decompressed size of a batch, in bytes.
        first_record: index of the first record of a batch to open. It allows paging through a large batch.
    """

    fields: int = 20_000
    record_fields: int = 10_000
    decompressed: int = 1 << 20
    first_record: int = 0


DEFAULT_LIMITS: Final = Limits()


def raise_decode_error(text: str) -> NoReturn:
    """Raise a DecodeError with this message."""
    raise DecodeError(text)


class Budget:
    """The number of leaves that can still be created."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class TooManyFieldsError(DecodeError):
    """A message with more leaves than its budget allows."""


class DecompressedSpace(NamedTuple):
    """Decompressed bytes and their nodes. Node positions count from the first of these bytes."""

    data: bytes
    children: list["Node"]


class Node:
    """A field, or a part of one.

    Attributes:
        name: the declared name, such as "topic_id"; "[3]" for an array element; a name in parentheses, such as
            "(length)", for undeclared bytes.
        type: the name of a `primitives.WireType`, or one of the types above.
        start, end: the range of the field's bytes, counted from the first byte of the tree's root.
        value: the value of a leaf (a number, text, or bytes as a memoryview), or the number of elements in an array.
            None for null.
        children: consecutive nodes that cover the range, or None for a leaf.
        about: the place of the field's declaration, such as "produce.ProduceRequest.acks" or "RecordBatch.crc". It
            is a key for `meanings`.
        note: a remark on the value, such as the name of an error code.
        fault: a sentence about an error in a value that could still be read.
        inside: the decompressed content of compressed bytes.
    """

    __slots__ = ("about", "children", "end", "fault", "inside", "name", "note", "start", "type", "value")

    def __init__(self, name: str, kind: str, start: int, end: int, value: Any = None, about: str = "") -> None:
        self.name = name
        self.type = kind
        self.start = start
        self.end = end
        self.value = value
        self.children: list[Node] | None = None
        self.about = about
        self.note = ""
        self.fault = ""
        self.inside: DecompressedSpace | None = None

    def add(self, child: "Node") -> "Node":
        """Append a child and return it."""
        if self.children is None:
            self.children = []
        self.children.append(child)
        return child

    def leaves(self) -> Iterator["Node"]:
        """Yield the leaves in byte order, except for leaves in decompressed content."""
        if self.children is None:
            yield self
        else:
            for child in self.children:
                yield from child.leaves()

    def all_nodes(self) -> Iterator["Node"]:
        """Yield this node and all its descendants, including nodes in decompressed content."""
        yield self
        for child in (*(self.children or ()), *(self.inside.children if self.inside else ())):
            yield from child.all_nodes()

    def find(self, *names: str) -> "Node":
        """Return the descendant at a path of names.

        Raises:
            KeyError: there is no such node.
        """
        node = self
        for name in names:
            # The first of several children with the same name counts.
            node = {child.name: child for child in reversed(node.children or ())}[name]
        return node

    def __repr__(self) -> str:
        return f"Node({self.name} {self.type} {self.start}-{self.end} {self.value!r})"


class Cursor:
    """A position in bytes that advances as nodes are created.

    A read beyond `end` raises DecodeError and leaves the position unchanged.
    """

    __slots__ = ("at", "budget", "data", "end")

    def __init__(self, data: memoryview, at: int, end: int, budget: Budget) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.budget = budget

    @property
    def left(self) -> int:
        """The number of bytes that remain to be read."""
        return self.end - self.at

    @property
    def is_used_up(self) -> bool:
        """Whether the limit of leaves has been reached."""
        return self.budget.left <= 0

    @contextmanager
    def open_node(self, parent: Node, name: str, kind: str, about: str = "") -> Generator[Node]:
        """Add a node to `parent`. It ends at the cursor's position when the block ends."""
        node = parent.add(Node(name, kind, self.at, self.at, about=about))
        try:
            yield node
        finally:
            node.end = self.at

    def leaf(self, name: str, kind: str, size: int, value: Any = None, about: str = "") -> Node:
        """Return a leaf that covers the next `size` bytes.

        Raises:
            DecodeError: there are fewer bytes.
            TooManyFieldsError: the limit is far exceeded. A record or structure that has begun can exceed it slightly.
        """
        if not 0 <= size <= self.left:
            raise DecodeError(f"{_split_words(name, about)}: {size} bytes, where {self.left} are left")
        self.budget.left -= 1
        if self.budget.left < -_MAX_EXCESS_LEAVES:
            raise TooManyFieldsError("too many fields")
        start, self.at = self.at, self.at + size
        return Node(name, kind, start, self.at, value, about)

    def number(self, name: str, layout: Struct, about: str = "", note: Note = "") -> Node:
        """Read a fixed-size integer and return its leaf."""
        node = self.leaf(name, _TYPES[layout], layout.size, None, about)
        (node.value,) = layout.unpack_from(self.data, node.start)
        node.note = note if isinstance(note, str) else note(node.value)
        return node

    def uvarint(self, name: str, about: str = "") -> Node:
        """Read an unsigned varint and return its leaf."""
        value, end = read_uvarint(self.data[: self.end], self.at)
        return self.leaf(name, "UVARINT", end - self.at, value, about)

    def varint(self, name: str, about: str = "", note: Note = "", *, kind: str = VARINT) -> Node:
        """Read a zig-zag varint, or a varlong if `kind` is VARLONG, and return its leaf."""
        try:
            value, end = (decode_varint if kind == VARINT else decode_varlong)(self.data[: self.end], self.at)
        except DecodeError:
            raise DecodeError(f"{_split_words(name, about)}: no varint, where {self.left} bytes are left") from None
        node = self.leaf(name, kind, end - self.at, value, about)
        node.note = note if isinstance(note, str) else note(value)
        return node

    def sub_cursor(self, size: int, name: str) -> "Cursor":
        """Return a cursor over the next `size` bytes that shares this budget, and advance this cursor after them."""
        if not 0 <= size <= self.left:
            raise DecodeError(f"{name}: {size} bytes, where {self.left} are left")
        start, self.at = self.at, self.at + size
        return Cursor(self.data, start, self.at, self.budget)

    def remaining_leaf(self, name: str, kind: str, value: str) -> Node:
        """Return a leaf that covers all remaining bytes, possibly none."""
        start, self.at = self.at, self.end
        return Node(name, kind, start, self.at, value)

    def error_leaf(self, error: Exception) -> Node:
        """Return an error leaf that covers all remaining bytes."""
        if isinstance(error, TooManyFieldsError):
            return self.unopened_leaf("the tree would be too large")
        return self.remaining_leaf("(error)", ERROR, str(error))

    def unopened_leaf(self, reason: str) -> Node:
        """Return a leaf that covers all remaining bytes without reading them."""
        return self.remaining_leaf("(not opened)", NOT_OPENED, reason)


def _split_words(name: str, about: str) -> str:
    """Return a field name as words, such as "key length"."""
    return (about.rpartition(".")[2] or name).replace("_", " ")


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
