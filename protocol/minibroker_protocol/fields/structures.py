"""Builds the field trees of messages. Unlike the compiled decoder, it records the position of each field."""

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from minibroker_protocol import primitives as p
from minibroker_protocol.coordinator_records import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields import tree
from minibroker_protocol.fields.batches import record_set
from minibroker_protocol.fields.tree import (
    Budget,
    Cursor,
    Limits,
    Node,
    TooManyFieldsError,
    format_time,
    raise_decode_error,
)
from minibroker_protocol.primitives import MAX_TAGGED_FIELDS
from minibroker_protocol.schema import Field, fields_of, schema_of

_PAYLOADS: Final[dict[str, type[Any]]] = {
    "groups.JoinGroupRequestProtocol.metadata": ConsumerProtocolSubscription,
    "groups.JoinGroupResponseMember.metadata": ConsumerProtocolSubscription,
    "groups.SyncGroupRequestAssignment.assignment": ConsumerProtocolAssignment,
    "groups.SyncGroupResponse.assignment": ConsumerProtocolAssignment,
    "groups.DescribedGroupMember.member_metadata": ConsumerProtocolSubscription,
    "groups.DescribedGroupMember.member_assignment": ConsumerProtocolAssignment,
}
"""Bytes fields that contain a message of the consumer protocol if the group's members are consumers."""

_TIMES: Final = frozenset(
    ("timestamp", "timestamp_ms", "commit_timestamp", "log_append_time_ms", "max_timestamp", "last_timestamp")
)
"""Fields with a point in time in milliseconds. Negative numbers have special meanings."""


def declaration_path(cls: type[Any]) -> str:
    """Return the module and the name of a message class, such as "fetch.FetchRequest"."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


@cache
def _struct_for(fmt: str) -> struct.Struct:
    return struct.Struct(">" + fmt)


class MessageWalker:
    """A walk over a message in one version.

    `record_budget` counts the nodes of all its records.
    """

    def __init__(self, version: int, *, flexible: bool, limits: Limits) -> None:
        self.version = version
        self.flexible = flexible
        self.limits = limits
        self.record_budget = Budget(limits.record_fields)

    def add_structure(self, cursor: Cursor, node: Node, cls: type[Any]) -> None:
        """Add the fields of a message or structure.

        Raises:
            DecodeError: a field is invalid. The fields before it have been added.
        """
        tagged: dict[int, Field] = {}
        for field in fields_of(cls):
            if self.flexible and self.version in field.tagged_in:
                tagged[field.tag] = field
            elif self.version in field.present:
                self.add_field(cursor, node, field, f"{declaration_path(cls)}.{field.name}")
        if self.flexible:
            tagged_places = {tag: (field, f"{declaration_path(cls)}.{field.name}") for tag, field in tagged.items()}
            tagged_fields(cursor, node, tagged_places, self)

    def add_field(self, cursor: Cursor, parent: Node, field: Field, about: str, *, in_tag: bool = False) -> None:
        """Add a field that has no fixed size."""
        may_be_null = self.version in field.nullable
        if field.is_array:
            self._add_array(cursor, parent, field, about, may_be_null=may_be_null)
        elif not isinstance(field.kind, p.WireType):
            self._add_nested(cursor, parent, field, about, may_be_null=may_be_null, in_tag=in_tag)
        elif field.kind.prefix:
            self._add_sized(cursor, parent, field, about, may_be_null=may_be_null)
        else:
            parent.add(self._add_fixed(cursor, field.name, field.kind, about))

    def _add_fixed(self, cursor: Cursor, name: str, kind: Any, about: str) -> Node:
        layout = _struct_for(kind.fmt)
        node = cursor.leaf(name, kind.name, layout.size, None, about)
        (node.value,) = layout.unpack_from(cursor.data, node.start)
        node.note = _note_for(about, node.value)
        return node

    def _read_length(self, cursor: Cursor, name: str, prefix: str) -> tuple[Node, int]:
        """Read a length or count. Return its node and its value, or -1 for null."""
        if self.flexible:
            node = cursor.uvarint(name)
            node.note = "one more than the number; 0 is null"
            return node, node.value - 1
        node = cursor.number(name, tree.INT16 if prefix == "h" else tree.INT32)
        return node, node.value

    def _add_sized(self, cursor: Cursor, parent: Node, field: Field, about: str, *, may_be_null: bool) -> None:
        kind = field.kind
        assert isinstance(kind, p.WireType)
        name = f"COMPACT_{kind.name}" if self.flexible else kind.name
        with cursor.open_node(parent, field.name, name, about) as node:
            prefix, size = self._read_length(cursor, tree.LENGTH, kind.prefix)
            node.add(prefix)
            is_too_long = kind is p.STRING and self.flexible and size > p.MAX_STRING_BYTES
            if size < -1 or size > cursor.left or is_too_long or (size < 0 and not may_be_null):
                raise DecodeError(f"{field.name}: length {size} with {cursor.left} bytes left")
            if size < 0:
                node.note = "null"
                return
            content_cursor = cursor.sub_cursor(size, field.name)
            if kind is p.RECORDS:
                records_cursor = Cursor(content_cursor.data, content_cursor.at, content_cursor.end, self.record_budget)
                record_set(records_cursor, self.limits, node)
            elif kind is p.STRING:
                _add_text(content_cursor, node)
            else:
                node.value = content_cursor.data[content_cursor.at : content_cursor.end]
                _add_bytes(content_cursor, node, about)

    def _add_nested(
        self, cursor: Cursor, parent: Node, field: Field, about: str, *, may_be_null: bool, in_tag: bool
    ) -> None:
        cls = field.kind
        assert not isinstance(cls, p.WireType)
        with cursor.open_node(parent, field.name, tree.STRUCT, about) as node:
            if may_be_null:
                presence = node.add(cursor.leaf(tree.PRESENCE, "INT8", 1))
                presence.value = int.from_bytes(cursor.data[presence.start : presence.end], signed=True)
                if presence.value < 0 or (in_tag and presence.value == 0):
                    node.note = "null"
                    return
            self.add_structure(cursor, node, cls)

    def _add_array(self, cursor: Cursor, parent: Node, field: Field, about: str, *, may_be_null: bool) -> None:
        name = f"COMPACT_{tree.ARRAY}" if self.flexible else tree.ARRAY
        with cursor.open_node(parent, field.name, name, about) as node:
            prefix, count = self._read_length(cursor, tree.COUNT, "i")
            node.add(prefix)
            if count < -1 or count > cursor.left or (count < 0 and not may_be_null):
                raise DecodeError(f"{field.name}: count {count} with {cursor.left} bytes left")
            if count < 0:
                node.note = "null"
                return
            node.value = count
            element = field._replace(is_array=False, nullable=field.nullable._replace(first=1, last=0))
            is_fixed = isinstance(field.kind, p.WireType) and not field.kind.prefix
            for index in range(count):
                if cursor.is_used_up:
                    raise TooManyFieldsError(f"{field.name}: too many elements")
                if is_fixed:
                    node.add(self._add_fixed(cursor, f"[{index}]", element.kind, about))
                else:
                    self.add_field(cursor, node, element._replace(name=f"[{index}]"), about)


def tagged_fields(
    cursor: Cursor, parent: Node, tagged_places: Mapping[int, tuple[Field, str]], walk: MessageWalker
) -> None:
    """Add a section of tagged fields (KIP-482). Declared fields are added by name, and all others as bytes."""
    with cursor.open_node(parent, "tagged_fields", tree.TAGGED_FIELDS, "(tagged fields)") as section:
        count = section.add(cursor.uvarint(tree.COUNT))
        if count.value > MAX_TAGGED_FIELDS:
            raise DecodeError(f"{count.value} tagged fields in one section, more than {MAX_TAGGED_FIELDS}")
        section.value = count.value
        for _ in range(count.value):
            with cursor.open_node(section, "tagged_field", "TAGGED_FIELD") as node:
                _add_tagged_field(cursor, node, tagged_places, walk)


def _add_tagged_field(
    cursor: Cursor, node: Node, tagged_places: Mapping[int, tuple[Field, str]], walk: MessageWalker
) -> None:
    tag = node.add(cursor.uvarint(tree.TAG))
    node.value = tag.value
    size = node.add(cursor.uvarint(tree.SIZE))
    field_cursor = cursor.sub_cursor(size.value, f"tag {tag.value}")
    if tag.value not in tagged_places:
        node.name = f"tag {tag.value}"
        node.note = "unknown tag"
        node.add(field_cursor.remaining_leaf(tree.CONTENT, tree.UNKNOWN, "a tagged field that is not known here"))
        return
    field, about = tagged_places[tag.value]
    node.name = field.name
    try:
        walk.add_field(field_cursor, node, field, about, in_tag=True)
        if field_cursor.left:
            raise_decode_error(f"tag {field.name}: its size is not what its content takes")
    except DecodeError as error:
        node.add(field_cursor.error_leaf(error))


def _add_text(cursor: Cursor, node: Node) -> None:
    view = cursor.data[cursor.at : cursor.end]
    if len(view):
        node.add(cursor.leaf(tree.CONTENT, tree.TEXT, len(view)))
    try:
        node.value = str(view, "utf-8")
    except UnicodeDecodeError as error:
        node.value = str(view, "utf-8", "backslashreplace")
        node.fault = f"{node.name}: text that is not UTF-8: {error.reason}"


def _add_bytes(cursor: Cursor, node: Node, about: str) -> None:
    if not cursor.left:
        return
    cls = _PAYLOADS.get(about)
    payload = payload_node(Cursor(cursor.data, cursor.at, cursor.end, cursor.budget), cls) if cls else None
    node.add(payload or cursor.leaf(tree.CONTENT, tree.BYTES, cursor.left))


def payload_node(cursor: Cursor, cls: type[Any]) -> Node | None:
    """Return the node of a message that is preceded by its version.

    The result is None if the cursor's bytes are not such a message. A version above the latest declared one is read
    as the latest, and the remaining bytes belong to no field.
    """
    node = Node(tree.CONTENT, tree.STRUCT, cursor.at, cursor.end, about=declaration_path(cls))
    try:
        version = node.add(cursor.number("version", tree.INT16, f"{declaration_path(cls)}.version"))
        versions = schema_of(cls).versions
        read_as = min(version.value, versions.last)
        walk = MessageWalker(read_as, flexible=read_as in schema_of(cls).flexible, limits=tree.DEFAULT_LIMITS)
        if version.value < 0 or walk.version not in versions:
            return None
        walk.add_structure(cursor, node, cls)
    except DecodeError:
        return None
    if cursor.left:
        if version.value <= versions.last:
            return None
        node.add(cursor.remaining_leaf(tree.CONTENT, tree.UNKNOWN, "fields of a later version"))
    return node


def _note_for(about: str, value: Any) -> str:
    """Return a remark on a number in a field whose numbers have a meaning."""
    name = about.rpartition(".")[2]
    if name.endswith("error_code"):
        try:
            return ErrorCode(value).name
        except ValueError:
            return "an error that is not known here"
    if name in _TIMES and isinstance(value, int) and value >= 0:
        return format_time(value)
    return ""
