"""Replaces the addresses in an encoded response.

`replace_addresses` changes each field `host` that is followed by a field `port`, the port itself, and the sizes of the
tagged fields around them. All other bytes are unchanged, including tagged fields that the message does not declare. The
bytes are read according to the message's declaration, up to the last field that can contain an address.

The reader is a chain of steps that is built once per (class, version). A step is called with (bytes, position, places).
It appends the addresses in its field to `places`, and returns the position after the field.
"""

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from minibroker_protocol import primitives as p
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.primitives import read_uvarint, write_uvarint
from minibroker_protocol.schema import Field, cached, fields_of, schema_of

Translate = Callable[[str, int], tuple[str, int] | None]
"""Maps an address to its replacement, or to None to keep it."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class _Address(NamedTuple):
    """An address. The length field of its host begins at `start`, and its port at `port_at`."""

    start: int
    port_at: int
    is_compact: bool


class _Size(NamedTuple):
    """The size of a tagged field. It begins at `start`; the content extends from `content_start` to `end`."""

    start: int
    content_start: int
    end: int


class _Edit(NamedTuple):
    start: int
    end: int
    content: bytes


_Places = list[_Address | _Size]
_Step = Callable[[memoryview, int, _Places], int]


def replace_addresses(
    cls: type[Any], version: int, message: memoryview, position: int, translate: Translate
) -> bytearray | None:
    """Return a copy of a response with its addresses replaced, or None if no address changes.

    Args:
        cls: the class of the response.
        version: its version.
        message: the response, including its header.
        position: the start of the response body.
        translate: maps each address to its replacement.

    Raises:
        DecodeError: the bytes do not match the declaration.
        ValueError: the class has no such version.
    """
    places: _Places = []
    is_truncated = True
    with contextlib.suppress(IndexError, struct.error):
        is_truncated = _walk_for(cls, version)(message, position, places) > len(message)
    if is_truncated:
        raise DecodeError(f"{cls.__name__} v{version}: cut short at {len(message)} bytes")
    edits = [edit for place in places if isinstance(place, _Address) for edit in _find_edits(message, place, translate)]
    if not edits:
        return None
    for place in reversed(places):
        if isinstance(place, _Size):
            inner = [edit for edit in edits if place.content_start <= edit.start < place.end]
            growth = sum(len(edit.content) - (edit.end - edit.start) for edit in inner)
            size = _encode_uvarint(place.end - place.content_start + growth)
            edits.append(_Edit(place.start, place.content_start, size))
    out = bytearray(message)
    for edit in sorted(edits, reverse=True):
        out[edit.start : edit.end] = edit.content
    return out


def _find_edits(message: memoryview, address: _Address, translate: Translate) -> Sequence[_Edit]:
    try:
        if address.is_compact:
            length, begin = read_uvarint(message, address.start)
            host = str(message[begin : begin + length - 1], "utf-8")
        else:
            host = str(message[address.start + _INT16.size : address.port_at], "utf-8")
    except UnicodeDecodeError:
        return ()  # Clients cannot connect to a host whose name is not UTF-8, so the address is ignored.
    port: int = _INT32.unpack_from(message, address.port_at)[0]
    replacement = translate(host, port)
    if replacement is None:
        return ()
    encoded = replacement[0].encode()
    length_bytes = _encode_uvarint(len(encoded) + 1) if address.is_compact else _INT16.pack(len(encoded))
    end = address.port_at + _INT32.size
    return (_Edit(address.start, end, length_bytes + encoded + _INT32.pack(replacement[1])),)


def _encode_uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


@cached
def _walk_for(cls: type[Any], version: int) -> _Step:
    schema = schema_of(cls)
    if version not in schema.versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    steps = _Steps(version, flexible=version in schema.flexible).build(cls)
    while steps and not steps[-1][1]:
        steps.pop()  # Fields after the last address need not be read.
    return _chain_steps([step for step, _ in steps])


class _Steps:
    """Builds the steps for one version. Each step is paired with a flag: whether it can find addresses."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

    def build(self, cls: type[Any]) -> list[tuple[_Step, bool]]:
        """Return the steps of a message or a structure."""
        steps: list[tuple[_Step, bool]] = []
        tags: dict[int, tuple[_Step, bool]] = {}
        fields = [field for field in fields_of(cls) if self._version in field.present]
        for index, field in enumerate(fields):
            if self._version in field.tagged_in:
                if self._flexible:
                    tags[field.tag] = self._field_step(field, in_tag=True)
            elif field.name == "host":
                assert fields[index + 1].name == "port", cls
                steps.append((_address_step(compact=self._flexible), True))
            elif field.name != "port":
                steps.append(self._field_step(field))
        if self._flexible:
            address_tags = {tag: step for tag, (step, has_address) in tags.items() if has_address}
            steps.append((_tags_step(address_tags), bool(address_tags)))
        return steps

    def _structure_step(self, cls: type[Any]) -> tuple[_Step, bool]:
        steps = self.build(cls)
        return _chain_steps([step for step, _ in steps]), any(has_address for _, has_address in steps)

    def _field_step(self, field: Field, *, in_tag: bool = False) -> tuple[_Step, bool]:
        kind = field.kind
        step, has_address = (
            (self._value_step(kind), False) if isinstance(kind, p.WireType) else self._structure_step(kind)
        )
        if field.is_array:
            return _array_step(_read_compact_count if self._flexible else _read_plain_count, step), has_address
        is_nullable = not isinstance(kind, p.WireType) and self._version in field.nullable and not in_tag
        return (_nullable_step(step) if is_nullable else step), has_address

    def _value_step(self, kind: p.WireType) -> _Step:
        if kind.fmt:
            return _fixed_step(struct.calcsize(">" + kind.fmt))
        if self._flexible:
            return _compact_step
        return _int16_sized_step if kind.prefix == "h" else _int32_sized_step


def _chain_steps(steps: Sequence[_Step]) -> _Step:
    if len(steps) == 1:
        return steps[0]

    def step(data: memoryview, position: int, places: _Places) -> int:
        for link in steps:
            position = link(data, position, places)
        return position

    return step


def _fixed_step(size: int) -> _Step:
    return lambda _data, position, _places: position + size


def _compact_step(data: memoryview, position: int, _places: _Places) -> int:
    length, position = read_uvarint(data, position)
    return position + max(length - 1, 0)


def _int16_sized_step(data: memoryview, position: int, _places: _Places) -> int:
    length: int = _INT16.unpack_from(data, position)[0]
    return position + _INT16.size + max(length, 0)


def _int32_sized_step(data: memoryview, position: int, _places: _Places) -> int:
    length: int = _INT32.unpack_from(data, position)[0]
    return position + _INT32.size + max(length, 0)


def _read_compact_count(data: memoryview, position: int) -> tuple[int, int]:
    count, position = read_uvarint(data, position)
    return count - 1, position


def _read_plain_count(data: memoryview, position: int) -> tuple[int, int]:
    return _INT32.unpack_from(data, position)[0], position + _INT32.size


def _array_step(read_count: Callable[[memoryview, int], tuple[int, int]], element: _Step) -> _Step:
    def step(data: memoryview, position: int, places: _Places) -> int:
        elements, position = read_count(data, position)
        end = len(data)
        for _ in range(elements):
            position = element(data, position, places)
            if position > end:
                raise IndexError(position)
        return position

    return step


def _nullable_step(content: _Step) -> _Step:
    def step(data: memoryview, position: int, places: _Places) -> int:
        is_present = data[position] < 0x80  # noqa: PLR2004 - a negative int8 is null
        return content(data, position + 1, places) if is_present else position + 1

    return step


def _address_step(*, compact: bool) -> _Step:
    """Return a step that records the position of a host and of the port after it."""
    skip = _compact_step if compact else _int16_sized_step

    def step(data: memoryview, position: int, places: _Places) -> int:
        port_at = skip(data, position, places)
        places.append(_Address(position, port_at, compact))
        return port_at + _INT32.size

    return step


def _tags_step(address_tags: dict[int, _Step]) -> _Step:
    def step(data: memoryview, position: int, places: _Places) -> int:
        if data[position] == 0:
            return position + 1
        count, position = read_uvarint(data, position)
        for _ in range(count):
            tag, position = read_uvarint(data, position)
            size_at = position
            size, position = read_uvarint(data, position)
            end = position + size
            if tag in address_tags:
                places.append(_Size(size_at, position, end))
                address_tags[tag](data, position, places)
            position = end
            if position > len(data):
                raise IndexError(position)
        return position

    return step
