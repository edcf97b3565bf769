"""Avro's binary data as the values of JSON, and back.

Bytes and fixed are strings of the characters U+0000 to U+00FF, as in Avro's JSON encoding. Unlike there, a value of a
union stands for itself, unless the names of branches are asked for. Logical types keep the value of the type that they
annotate.
"""

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from minibroker_registry.avro_defaults import fits_scalar
from minibroker_registry.avro_types import INTEGER_RANGES, Type
from minibroker_registry.limits import TooMuchWorkError

Data: TypeAlias = "Mapping[str, Data] | Sequence[Data] | str | bytes | float | Decimal | None"
"""A value. To encode it, a bytes object may stand for such a string."""

_FLOATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_MAX_VALUES_WITHOUT_BYTES: Final = 100_000
"""The limit for values that take no bytes, such as nulls, of which a short payload may announce billions."""
_MAX_WASTED_WRITES: Final = 100_000
"""The most values that are written in vain to find the branches of unions."""
_SEVEN_BITS: Final = 0x7F
_MAX_SHOWN_CHARACTERS: Final = 200


def decode(root: Type, payload: bytes, *, with_branches: bool = False) -> Data:
    """Return the value of a payload.

    Args:
        root: The schema's outermost type.
        payload: The payload.
        with_branches: Whether a value of a union is an object with the name of its branch, except null.

    Raises:
        ValueError: The payload is not data of this type.
    """
    reader = _Reader(payload, with_branches=with_branches)
    try:
        value = reader.read(root)
    except RecursionError:
        raise ValueError("The data is nested too deeply") from None
    if reader.at < len(payload):
        raise ValueError(f"{len(payload) - reader.at} bytes are left after the value")
    return value


class _Reader:
    """Reads values from a payload."""

    def __init__(self, payload: bytes, *, with_branches: bool) -> None:
        self._payload = payload
        self._with_branches = with_branches
        self.at = 0
        self._remaining = _MAX_VALUES_WITHOUT_BYTES + 2 * len(payload)

    def read(self, node: Type) -> Data:  # noqa: PLR0911 - one for each kind of type
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
            return bool(self._read_byte(2, "boolean"))
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

    def _read_byte(self, limit: int, what: str) -> int:
        byte = self._take(1)[0]
        if byte >= limit:
            raise ValueError(f"Byte {self.at - 1} is no {what}: {byte}")
        return byte

    def _read_long(self) -> int:
        """Read a variable-length, zigzag-encoded integer of at most 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self._take(1)[0]
            value |= (byte & _SEVEN_BITS) << shift
            if byte <= _SEVEN_BITS and value >> 64 == 0:
                return (value >> 1) ^ -(value & 1)
        raise ValueError(f"The integer before byte {self.at} has more than 64 bits")

    def _take(self, size: int) -> bytes:
        piece = self._payload[self.at : self.at + size]
        if len(piece) < size:
            raise ValueError(f"The payload ends {size - len(piece)} bytes too early, in a value at byte {self.at}")
        self.at += size
        return piece


def encode(root: Type, value: Data) -> bytes:
    """Return the payload of a value.

    In a union, the value belongs to the first branch that it fits. `{"name": value}` chooses the branch with this name
    if the object itself fits no branch.

    Raises:
        ValueError: The value does not fit. The message names the field and the value.
    """
    writer = _Writer()
    try:
        writer.write(root, value)
    except RecursionError:
        raise ValueError("The value is nested too deeply") from None
    return bytes(writer.payload)


class _Writer:
    """Writes values to a payload."""

    def __init__(self) -> None:
        self.payload = bytearray()
        self._path: list[str] = []
        self._writes = 0
        self._wasted_writes = 0

    def write(self, node: Type, value: Data) -> None:
        self._writes += 1
        if node.kind == "union":
            self._write_union(node, value)
        elif node.kind == "record":
            self._write_record(node, value)
        elif node.items is None:
            self._write_scalar(node, value)
        elif node.kind == "array":
            self._write_array(node.items, value)
        else:
            self._write_map(node.items, value)

    def _write_at(self, step: str, node: Type, value: Data) -> None:
        """Write a value within another one. The step leads to it, and is part of messages."""
        self._path.append(step)
        self.write(node, value)
        self._path.pop()

    def _write_record(self, node: Type, value: Data) -> None:
        if not isinstance(value, Mapping):
            self._refuse(value, f"a record {node.name}")
        for member in node.fields:
            given = (value[member.name],) if member.name in value else member.default
            if not given:
                self._refuse(value, f"a record {node.name}, for its field {member.name!r} is missing")
            self._write_at(f".{member.name}", member.type, given[0])
        unknown = value.keys() - {member.name for member in node.fields}
        if unknown:
            self._refuse(value, f"a record {node.name}, which has no field {min(map(repr, unknown))}")

    def _write_array(self, items: Type, value: Data) -> None:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            self._refuse(value, "an array")
        if value:
            self._write_long(len(value))
        for index, element in enumerate(value):
            self._write_at(f"[{index}]", items, element)
        self._write_long(0)

    def _write_map(self, items: Type, value: Data) -> None:
        if not isinstance(value, Mapping):
            self._refuse(value, "a map")
        if value:
            self._write_long(len(value))
        for key, element in value.items():
            self._write_bytes(str(key).encode())
            self._write_at(f"[{key!r}]", items, element)
        self._write_long(0)

    def _write_union(self, node: Type, value: Data) -> None:
        """Write a value with the first branch that it fits."""
        size, depth = len(self.payload), len(self._path)
        candidates = [(index, branch, value) for index, branch in enumerate(node.branches)]
        if isinstance(value, Mapping) and len(value) == 1:
            ((name, inner),) = value.items()
            candidates += [(index, branch, inner) for index, branch, _ in candidates if name in _names(branch)]
        errors: list[ValueError] = []
        for index, branch, candidate in candidates:
            self._write_long(index)
            writes = self._writes
            try:
                self.write(branch, candidate)
            except TooMuchWorkError:
                raise
            except ValueError as error:
                errors.append(error)
                del self.payload[size:], self._path[depth:]
                self._wasted_writes += self._writes - writes
                if self._wasted_writes > _MAX_WASTED_WRITES:
                    raise TooMuchWorkError("It takes too much work to fit the value into the schema's unions") from None
            else:
                return
        other_errors = [error for error, at in zip(errors, candidates, strict=True) if at[1].kind != "null"]
        if len(other_errors) == 1:
            raise other_errors[0]
        names = ", ".join(branch.name for branch in node.branches)
        self._refuse(value, f"in the union of {names}")

    def _write_scalar(self, node: Type, value: Data) -> None:
        kind = node.kind
        if isinstance(value, bytes) and kind in {"bytes", "fixed"}:
            value = value.decode("latin-1")
        if isinstance(value, float) and value.is_integer() and kind in INTEGER_RANGES:
            value = int(value)
        if not fits_scalar(kind, value):
            self._refuse(value, f"of type {kind}")
        if isinstance(value, str):
            self._write_string(node, value)
        elif kind == "boolean":
            self.payload.append(value is True)
        elif isinstance(value, int | float | Decimal):
            self._write_number(kind, value)

    def _write_string(self, node: Type, value: str) -> None:
        if node.kind == "enum":
            if value not in node.symbols:
                self._refuse(value, f"a symbol of {node.name}")
            self._write_long(node.symbols.index(value))
            return
        try:
            data = value.encode("utf-8" if node.kind == "string" else "latin-1")
        except UnicodeEncodeError:
            self._refuse(value, f"of type {node.kind}")
        if node.kind != "fixed":
            self._write_bytes(data)
        elif len(data) == node.size:
            self.payload += data
        else:
            self._refuse(value, f"of type fixed with {node.size} bytes")

    def _write_number(self, kind: str, value: float | Decimal) -> None:
        if kind in INTEGER_RANGES and isinstance(value, int):
            self._write_long(value)
            return
        try:
            self.payload += _FLOATS[kind].pack(value)
        except (OverflowError, struct.error):
            self._refuse(value, f"of type {kind}")

    def _write_bytes(self, data: bytes) -> None:
        self._write_long(len(data))
        self.payload += data

    def _write_long(self, value: int) -> None:
        """Write a variable-length, zigzag-encoded integer of 64 bits."""
        rest = (value << 1) ^ (value >> 63)
        while rest > _SEVEN_BITS:
            self.payload.append(rest & _SEVEN_BITS | 0x80)
            rest >>= 7
        self.payload.append(rest)

    def _refuse(self, value: Data, expected: str) -> NoReturn:
        shown = repr(value)
        if len(shown) > _MAX_SHOWN_CHARACTERS:
            shown = f"{shown[:_MAX_SHOWN_CHARACTERS]}..."
        where = "".join(self._path).removeprefix(".")
        raise ValueError(f"{where or 'The value'}: {shown} is not {expected}")


def _names(branch: Type) -> set[str]:
    """Return the names by which an object may choose a branch."""
    return {branch.name, branch.name.rpartition(".")[2]}
