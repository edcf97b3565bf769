"""The elements of Protobuf schemas, as a text has them.

They keep what the stored text needs and what descriptors lose: type names as written, the order of options, and
numbers in the base that they were written in.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

_T = TypeVar("_T")

MAX_TAG: Final = 536_870_911
ESCAPES: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
"""The letters of escapes in strings, and their characters."""


class Word(str):
    """A value without quotes: a number, `true`, `false`, or the name of an enum constant."""

    __slots__ = ()


Value: TypeAlias = "str | Word | dict[str, Value] | list[Value] | Option"
"""The value of an option. Bytes that are not UTF-8 are surrogate escapes."""

Range: TypeAlias = tuple[int, ...]
"""A number, or the first and the last of a range."""


@dataclass(slots=True)
class Option:
    """An option. `(name).part = 1` has an option named `part` as its value."""

    name: str
    value: Value
    parenthesized: bool = False

    def special(self) -> str | None:
        """Return the value if this is a default or a JSON name, which descriptors do not have among the options."""
        is_special = self.name in ("default", "json_name") and not self.parenthesized
        return self.value if is_special and isinstance(self.value, str) else None


@dataclass(slots=True)
class Field:
    """A field. A group is a field of type `group` with a message of its own; its label is "" if it has none.

    The last options are `default` and `json_name`, if they are given (`special`).
    """

    name: str
    type: str
    tag: int
    label: str = ""
    options: list[Option] = field(default_factory=list[Option])
    group: "Message | None" = None


@dataclass(slots=True)
class OneOf:
    """A oneof of a message."""

    name: str
    fields: list[Field] = field(default_factory=list[Field])
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Extensions:
    """A statement of ranges for extensions."""

    ranges: list[Range]
    options: list[Option]


@dataclass(slots=True)
class Constant:
    """A constant of an enum."""

    name: str
    number: int
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Enum:
    """An enum. Each element of `reserved` is one statement."""

    name: str
    constants: list[Constant] = field(default_factory=list[Constant])
    options: list[Option] = field(default_factory=list[Option])
    reserved: list[list[Range | str]] = field(default_factory=list[list[Range | str]])


@dataclass(slots=True)
class Extend:
    """Fields that a file or a message adds to a message."""

    name: str
    fields: list[Field] = field(default_factory=list[Field])


@dataclass(slots=True)
class Message:
    """A message. Its members are in the order of the text."""

    name: str
    members: "list[Field | OneOf | Extend | Enum | Message]" = field(
        default_factory=list["Field | OneOf | Extend | Enum | Message"]
    )
    options: list[Option] = field(default_factory=list[Option])
    reserved: list[list[Range | str]] = field(default_factory=list[list[Range | str]])
    extensions: list[Extensions] = field(default_factory=list[Extensions])

    def fields(self) -> "list[tuple[Field, str]]":
        """Return all fields, each with the name of its oneof or an empty string."""
        plain = [(field, "") for field in only(Field, self.members)]
        return plain + [(field, one_of.name) for one_of in only(OneOf, self.members) for field in one_of.fields]

    def map_entry(self) -> tuple[str, str] | None:
        """Return the types of the key and the value if this is the entry message of a map, as in descriptors."""
        if not any(option.name == "map_entry" and option.value == "true" for option in self.options):
            return None
        types = {field.name: field.type for field in only(Field, self.members)}
        return (types["key"], types["value"]) if types.keys() >= {"key", "value"} else None


@dataclass(slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Service:
    """A service."""

    name: str
    rpcs: list[Rpc] = field(default_factory=list[Rpc])
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class File:
    """A schema. An import is its kind ("", "public" or "weak") and a path; no syntax means proto2."""

    syntax: str = ""
    package: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    options: list[Option] = field(default_factory=list[Option])
    members: list[Message | Enum | Extend] = field(default_factory=list[Message | Enum | Extend])
    services: list[Service] = field(default_factory=list[Service])


Definition: TypeAlias = Message | Enum
"""What defines a type."""


def only(kind: type[_T], members: Iterable[object]) -> list[_T]:
    """Return the members of one kind, in their order."""
    return [member for member in members if isinstance(member, kind)]


def as_list(value: Value) -> list[Value]:
    """Return a list itself, and another value in a list."""
    return value if isinstance(value, list) else [value]


def map_types(written: str) -> tuple[str, str] | None:
    """Return the types of the key and the value of a map type, or None for another type."""
    if not written.startswith("map<"):
        return None
    key, _, value = written[4:-1].partition(", ")
    return key, value


def join_name(scope: str, name: str) -> str:
    """Return the full name of what a package or a message defines."""
    return f"{scope}.{name}" if scope else name
