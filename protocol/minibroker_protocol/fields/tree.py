"""The tree of fields, and the cursor that makes its nodes from bytes."""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, NoReturn

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.primitives import read_uvarint
from minibroker_protocol.records.varint import decode_varint, decode_varlong

ARRAY: Final = "ARRAY"
STRUCT: Final = "STRUCT"
TAGGED_FIELDS: Final = "TAGGED_FIELDS"
TAGGED_FIELD: Final = "TAGGED_FIELD"
BATCH: Final = "BATCH"
MESSAGE: Final = "MESSAGE"
RECORD: Final = "RECORD"
UVARINT: Final = "UVARINT"
VARINT: Final = "VARINT"
VARLONG: Final = "VARLONG"
BYTES: Final = "BYTES"
TEXT: Final = "TEXT"
"""The bytes of a text behind its length."""
COMPRESSED: Final = "COMPRESSED"
ERROR: Final = "ERROR"
"""Bytes that cannot be read, perhaps none; the value says why."""
NOT_OPENED: Final = "NOT_OPENED"
"""Bytes that were not looked at, since the tree would be too large; the value says what they are."""
UNKNOWN: Final = "UNKNOWN"
"""Bytes behind the last field, which belong to none."""

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

_OVERSHOOT: Final = 2_000
"""So many leaves a single record or structure may have when the limit is reached."""

Note = str | Callable[[int], str]
"""A remark on a number: the same for all of its values, or a function of the value."""


class Limits(NamedTuple):
    """Bounds of a tree.

    Attributes:
        fields: leaves of a message without its records.
        record_fields: leaves of all its records.
        decompressed: bytes that a batch may decompress to.
        first_record: the records of a batch before this number stay closed, so that a large batch has pages.
    """

    fields: int = 20_000
    record_fields: int = 10_000
    decompressed: int = 1 << 20
    first_record: int = 0


DEFAULT_LIMITS: Final = Limits()


def refuse(text: str) -> NoReturn:
    """Raise a DecodeError."""
    raise DecodeError(text)


class Budget:
    """Leaves that may be made yet."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class TooManyFieldsError(DecodeError):
    """The budget is used up."""


class Space(NamedTuple):
    """Decompressed bytes: positions of the nodes in them count from their first."""

    data: bytes
    children: list["Node"]


class Node:
    """A field, or a part of one.

    Attributes:
        name: as in the declarations, "topic_id"; "[3]" for the element of an array, "(length)" and other names in
            parentheses for bytes that no declaration names.
        type: the name of a `primitives.WireType`, or one of the types above.
        start, end: the range of its bytes, from the first byte of the tree's root on.
        value: of a leaf, and of text and bytes (a memoryview); of an array the number of its elements. None for null.
        children: None for a leaf. Children lie one behind the other and cover the range.
        about: the place of its declaration, which `meanings` knows: "produce.ProduceRequest.acks", "RecordBatch.crc".
        note: a remark on its value, such as the name of an error code.
        fault: a sentence on what is wrong with it; its bytes could be read.
        inside: what compressed bytes decompress to.
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
        self.inside: Space | None = None

    def add(self, child: "Node") -> "Node":
        """Append a child; returns it."""
        if self.children is None:
            self.children = []
        self.children.append(child)
        return child

    def leaves(self) -> Iterator["Node"]:
        """The leaves in the order of their bytes, without those of decompressed bytes."""
        if self.children is None:
            yield self
        else:
            for child in self.children:
                yield from child.leaves()

    def all_nodes(self) -> Iterator["Node"]:
        """This node and all below it, also those of decompressed bytes."""
        yield self
        for child in (*(self.children or ()), *(self.inside.children if self.inside else ())):
            yield from child.all_nodes()

    def find(self, *names: str) -> "Node":
        """The node below this one that a path of names leads to. KeyError."""
        node = self
        for name in names:
            found = next((child for child in node.children or () if child.name == name), None)
            if found is None:
                raise KeyError(name)
            node = found
        return node

    def __repr__(self) -> str:
        return f"Node({self.name} {self.type} {self.start}-{self.end} {self.value!r})"


class Cursor:
    """A position in bytes that moves as nodes are made of them.

    Reading raises DecodeError when too few bytes are left before `end`, and leaves the position where it was.
    """

    __slots__ = ("at", "budget", "data", "end")

    def __init__(self, data: memoryview, at: int, end: int, budget: Budget) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.budget = budget

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return self.end - self.at

    @property
    def is_used_up(self) -> bool:
        """Whether no more elements may be opened."""
        return self.budget.left <= 0

    def spend(self) -> None:
        """Count one leaf. TooManyFieldsError far behind the limit: a part that has begun may end."""
        self.budget.left -= 1
        if self.budget.left < -_OVERSHOOT:
            raise TooManyFieldsError("too many fields")

    def leaf(self, name: str, kind: str, size: int, value: Any = None, about: str = "") -> Node:
        """A leaf of the next `size` bytes."""
        if not 0 <= size <= self.left:
            raise DecodeError(f"{_words(name, about)}: {size} bytes, where {self.left} are left")
        self.spend()
        start, self.at = self.at, self.at + size
        return Node(name, kind, start, self.at, value, about)

    def number(self, name: str, layout: Struct, about: str = "", note: Note = "") -> Node:
        """An integer of fixed size."""
        node = self.leaf(name, _TYPES[layout], layout.size, None, about)
        (node.value,) = layout.unpack_from(self.data, node.start)
        node.note = note if isinstance(note, str) else note(node.value)
        return node

    def uvarint(self, name: str, about: str = "") -> Node:
        """An unsigned varint."""
        value, end = read_uvarint(self.data[: self.end], self.at)
        return self.leaf(name, UVARINT, end - self.at, value, about)

    def varint(self, name: str, about: str = "", note: Note = "") -> Node:
        """A zig-zag varint."""
        return self._variable(name, VARINT, about, note)

    def varlong(self, name: str, about: str = "", note: Note = "") -> Node:
        """A zig-zag varlong."""
        return self._variable(name, VARLONG, about, note)

    def _variable(self, name: str, kind: str, about: str, note: Note) -> Node:
        try:
            value, end = (decode_varint if kind == VARINT else decode_varlong)(self.data[: self.end], self.at)
        except DecodeError:
            raise DecodeError(f"{_words(name, about)}: no varint, where {self.left} bytes are left") from None
        node = self.leaf(name, kind, end - self.at, value, about)
        node.note = note if isinstance(note, str) else note(value)
        return node

    def part(self, size: int, name: str) -> "Cursor":
        """A cursor over the next `size` bytes; this one moves behind them. The budget is the same."""
        if not 0 <= size <= self.left:
            raise DecodeError(f"{name}: {size} bytes, where {self.left} are left")
        start, self.at = self.at, self.at + size
        return Cursor(self.data, start, self.at, self.budget)

    def rest(self, name: str, kind: str, value: str) -> Node:
        """A leaf of all that is left, perhaps of no byte."""
        start, self.at = self.at, self.end
        return Node(name, kind, start, self.at, value)

    def failed(self, error: Exception) -> Node:
        """The leaf of all that is left, for an error."""
        if isinstance(error, TooManyFieldsError):
            return self.not_opened("the tree would be too large")
        return self.rest("(error)", ERROR, str(error))

    def not_opened(self, reason: str) -> Node:
        """The leaf of all that is left, which is not looked at."""
        return self.rest("(not opened)", NOT_OPENED, reason)


def _words(name: str, about: str) -> str:
    """A field in a sentence: "key length"."""
    return (about.rpartition(".")[2] or name).replace("_", " ")
