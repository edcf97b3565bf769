"""Avro schemas, and their binary data as the values of JSON, and back.

Bytes and fixed are strings of the characters U+0000 to U+00FF, as in Avro's JSON encoding. Unlike there, a value of a
union stands for itself, unless the names of branches are asked for. Logical types keep the value of the type that they
annotate.
"""

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.varint import decode_varlong, encode_varlong
from minibroker_registry import avro_compatibility
from minibroker_registry.avro_types import INTEGER_RANGES, Parser, Type, fits_scalar, print_type
from minibroker_registry.schema import Deadline, Parsed, TooMuchWorkError

if TYPE_CHECKING:
    from decimal import Decimal

Data: TypeAlias = "Mapping[str, Data] | Sequence[Data] | str | bytes | float | Decimal | None"
"""A value. To encode it, a bytes object may stand for such a string."""

_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_MAX_VALUES_WITHOUT_BYTES: Final = 100_000
"""The limit for values that take no bytes, such as nulls, of which a short payload may announce billions."""
_MAX_SHOWN_CHARACTERS: Final = 200


def parse(text: str, references: Mapping[str, str], *, is_new: bool = True) -> "AvroSchema":
    """Parse a schema (see `schema`)."""
    parser = Parser(is_new=is_new)
    known = frozenset(parser.parse(reference).name for reference in references.values())
    return AvroSchema(parser.parse(text), known)


class AvroSchema(Parsed):
    """A parsed Avro schema.

    Attributes:
        root: The schema's outermost type.

    Args:
        root: The schema's outermost type.
        known: The full names of the references' outermost types.
    """

    def __init__(self, root: Type, known: frozenset[str]) -> None:
        self.root = root
        self._known = known
        self.canonical = print_type(root, known)

    @functools.cached_property
    def normalized(self) -> str:  # type: ignore[override] # made when it is asked for
        """The text for `normalize=true`."""
        return print_type(self.root, self._known, is_normal=True)

    def formatted(self, form: str) -> str:
        """Return the canonical text. In the form `resolved`, it defines the types of references, too."""
        return print_type(self.root, frozenset()) if form == "resolved" else self.canonical

    def record_name(self, payload: bytes) -> str:  # noqa: ARG002 - for Protobuf
        """Return the full name of the outermost type."""
        return self.root.name

    def field_names(self) -> set[str]:
        """Return the names of the outermost record's fields."""
        return {member.name for member in self.root.fields}

    def incompatibilities(self, writer: Parsed, *, lenient: bool = False) -> list[str]:  # noqa: ARG002 - for JSON Schema
        """Return why a reader with this schema cannot read data of `writer` (see `Parsed`)."""
        assert isinstance(writer, AvroSchema)
        return avro_compatibility.incompatibilities(self.root, writer.root)

    def decode(self, payload: bytes, *, with_branches: bool = False) -> Data:
        """Decode a payload (see `Parsed`). With branches, a value of a union is in an object that names its branch."""
        reader = _Reader(payload, with_branches=with_branches)
        try:
            value = reader.read(self.root)
        except RecursionError:
            raise ValueError("The data is nested too deeply") from None
        except DecodeError as error:
            raise ValueError(f"The payload has no integer where one belongs: {error}") from None
        if reader.at < len(payload):
            raise ValueError(f"{len(payload) - reader.at} bytes are left after the value")
        return value

    def encode(self, value: object, message: str | None = None) -> bytes:  # noqa: ARG002 - for Protobuf
        """Return the payload of a value (see `Parsed`).

        In a union, the value belongs to the first branch that it fits. `{"name": value}` chooses the branch with this
        name if the object itself fits no branch.
        """
        try:
            return _Writer().write(self.root, cast("Data", value), "")
        except RecursionError:
            raise ValueError("The value is nested too deeply") from None


class _Reader:
    """Reads values from a payload."""

    def __init__(self, payload: bytes, *, with_branches: bool) -> None:
        self._payload = payload
        self._with_branches = with_branches
        self.at = 0
        self._remaining = _MAX_VALUES_WITHOUT_BYTES + 2 * len(payload)

    def read(self, node: Type) -> Data:  # noqa: C901, PLR0911 - one for each kind of type
        self._remaining -= 1
        if self._remaining < 0:
            raise ValueError("The payload announces more values than its bytes can hold")
        kind = node.kind
        if kind == "record":
            return {member.name: self.read(member.type) for member in node.fields}
        if kind == "union":
            branch = node.branches[self._read_index(len(node.branches), "branches")]
            value = self.read(branch)
            return {branch.name: value} if self._with_branches and branch.kind != "null" else value
        if kind == "enum":
            return node.symbols[self._read_index(len(node.symbols), "symbols")]
        if node.items is not None:
            return self._read_array(node.items) if kind == "array" else self._read_map(node.items)
        if kind in {"int", "long"}:
            number = self._read_long()
            if not fits_scalar(kind, number):
                raise ValueError(f"{number} before byte {self.at} is too large for an int")
            return number
        if kind == "string":
            return self._take(self._read_size()).decode()
        if kind == "null":
            return None
        if kind == "boolean":
            byte = self._take(1)[0]
            if byte > 1:
                raise ValueError(f"Byte {self.at - 1} is no boolean: {byte}")
            return byte == 1
        if kind in _FLOATS:
            codec = _FLOATS[kind]
            (decimal,) = codec.unpack(self._take(codec.size))
            return float(decimal)
        return self._take(self._read_size() if kind == "bytes" else node.size).decode("latin-1")

    def _read_array(self, items: Type) -> list[Data]:
        values: list[Data] = []
        while count := self._read_count():
            values += [self.read(items) for _ in range(count)]
        return values

    def _read_map(self, items: Type) -> dict[str, Data]:
        values: dict[str, Data] = {}
        while count := self._read_count():
            for _ in range(count):
                key = self._take(self._read_size()).decode()
                values[key] = self.read(items)
        return values

    def _read_count(self) -> int:
        """Return the number of values in the next block. The size in bytes after a negative count is skipped."""
        count = self._read_long()
        if count < 0:
            self._read_long()
        return abs(count)

    def _read_index(self, size: int, what: str) -> int:
        index = self._read_long()
        if not 0 <= index < size:
            raise ValueError(f"Index {index} before byte {self.at} is not one of {size} {what}")
        return index

    def _read_size(self) -> int:
        size = self._read_long()
        if size < 0:
            raise ValueError(f"The size before byte {self.at} is negative: {size}")
        return size

    def _read_long(self) -> int:
        value, self.at = decode_varlong(self._payload, self.at)
        return value

    def _take(self, size: int) -> bytes:
        piece = self._payload[self.at : self.at + size]
        if len(piece) < size:
            raise ValueError(f"The payload ends {size - len(piece)} bytes too early, in a value at byte {self.at}")
        self.at += size
        return piece


class _Writer:
    """The state of one encode() call. A path leads to a value, and is part of messages."""

    def __init__(self) -> None:
        self._deadline = Deadline()

    def write(self, node: Type, value: Data, path: str) -> bytes:
        """Return the bytes of a value."""
        if node.kind == "union":
            return self._write_union(node, value, path)
        if node.kind == "record":
            return self._write_record(node, value, path)
        if node.items is None:
            data = _write_scalar(node, value)
            if data is None:
                size = f" with {node.size} bytes" if node.kind == "fixed" else ""
                is_enum = node.kind == "enum"
                raise _misfit(value, f"a symbol of {node.name}" if is_enum else f"of type {node.kind}{size}", path)
            return data
        is_map = node.kind == "map"
        if isinstance(value, str | bytes) or not isinstance(value, Mapping if is_map else Sequence):
            raise _misfit(value, "a map" if is_map else "an array", path)
        parts = [encode_varlong(len(value))] if value else []
        for key, element in value.items() if isinstance(value, Mapping) else enumerate(value):
            if is_map:
                parts.append(_write_bytes(str(key).encode()))
            parts.append(self.write(node.items, element, f"{path}[{key!r}]"))
        return b"".join((*parts, b"\0"))

    def _write_record(self, node: Type, value: Data, path: str) -> bytes:
        if not isinstance(value, Mapping):
            raise _misfit(value, f"a record {node.name}", path)
        parts: list[bytes] = []
        for member in node.fields:
            given = (value[member.name],) if member.name in value else member.default
            if not given:
                raise _misfit(value, f"a record {node.name}, for its field {member.name!r} is missing", path)
            parts.append(self.write(member.type, given[0], f"{path}.{member.name}"))
        unknown = value.keys() - {member.name for member in node.fields}
        if unknown:
            raise _misfit(value, f"a record {node.name}, which has no field {min(map(repr, unknown))}", path)
        return b"".join(parts)

    def _write_union(self, node: Type, value: Data, path: str) -> bytes:
        """Return the bytes of a value in the first branch that it fits."""
        candidates = [(index, branch, value) for index, branch in enumerate(node.branches)]
        if isinstance(value, Mapping) and len(value) == 1:
            ((name, inner),) = value.items()
            candidates += [
                (index, branch, inner)
                for index, branch, _ in candidates
                if name in (branch.name, branch.name.rpartition(".")[2])
            ]
        errors: list[ValueError] = []
        for index, branch, candidate in candidates:
            if branch.kind == "null" and candidate is not None:
                continue
            try:
                return encode_varlong(index) + self.write(branch, candidate, path)
            except TooMuchWorkError:
                raise
            except ValueError as error:
                self._deadline.check()
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise _misfit(value, f"in the union of {', '.join(branch.name for branch in node.branches)}", path)


def _misfit(value: Data, expected: str, path: str) -> ValueError:
    shown = repr(value)
    if len(shown) > _MAX_SHOWN_CHARACTERS:
        shown = f"{shown[:_MAX_SHOWN_CHARACTERS]}..."
    return ValueError(f"{path.removeprefix('.') or 'The value'}: {shown} is not {expected}")


def _write_scalar(node: Type, value: Data) -> bytes | None:  # noqa: PLR0911 - one for each kind of type
    """Return the bytes of a value that is no container, or None if it does not fit."""
    kind = node.kind
    if isinstance(value, bytes) and kind in {"bytes", "fixed"}:
        value = value.decode("latin-1")
    if isinstance(value, float) and value.is_integer() and kind in INTEGER_RANGES:
        value = int(value)
    if not fits_scalar(kind, value):
        return None
    if isinstance(value, str):
        if kind == "enum":
            return encode_varlong(node.symbols.index(value)) if value in node.symbols else None
        try:
            data = value.encode("utf-8" if kind == "string" else "latin-1")
        except UnicodeEncodeError:
            return None
        if kind == "fixed":
            return data if len(data) == node.size else None
        return _write_bytes(data)
    if kind in {"null", "boolean"}:
        return b"" if value is None else b"\1" if value else b"\0"
    if kind in INTEGER_RANGES:
        return encode_varlong(cast("int", value))
    try:
        return _FLOATS[kind].pack(value)
    except (OverflowError, struct.error):
        return None


def _write_bytes(data: bytes) -> bytes:
    return encode_varlong(len(data)) + data
