"""The elements of Protobuf schemas, as a text has them.

They keep what the stored text needs and what descriptors lose: type names as written, the order of options, and
numbers in the base that they were written in.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

MAX_TAG: Final = 536_870_911
FIELDS: Final = ("field", "group")
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
class Element:
    """A statement, and what it has in braces.

    Attributes:
        kind: `message`, `enum`, `oneof`, `extend`, `service`, `rpc`, `field`, `group`, `constant`, `reserved` or
            `extensions`. A group is a field whose only member is its message.
        name: Its name, or for `extend` the name of the message that gets the fields.
        type: The type of a field, or of the request of an rpc, as it is written.
        number: The number of a field or a constant.
        label: The label of a field, or "".
        options: The options. The last ones of a field are `default` and `json_name`, if they are given (`special`).
        members: What stands in braces besides options, in the order of the text.
        ranges: The numbers and names of `reserved` or `extensions`.
        returns: The type of the response of an rpc.
    """

    kind: str
    name: str = ""
    type: str = ""
    number: int = 0
    label: str = ""
    options: list[Option] = field(default_factory=list[Option])
    members: "list[Element]" = field(default_factory=list["Element"])
    ranges: list[Range | str] = field(default_factory=list[Range | str])
    returns: str = ""

    def only(self, *kinds: str) -> "list[Element]":
        """Return the members of some kinds, in their order."""
        return [member for member in self.members if member.kind in kinds]

    def fields(self) -> "list[tuple[Element, str]]":
        """Return all fields of a message, each with the name of its oneof or an empty string."""
        plain = [(field, "") for field in self.only(*FIELDS)]
        return plain + [(field, one_of.name) for one_of in self.only("oneof") for field in one_of.members]

    def map_entry(self) -> tuple[str, str] | None:
        """Return the types of the key and the value if this is the entry message of a map, as in descriptors."""
        if not any(option.name == "map_entry" and option.value == "true" for option in self.options):
            return None
        types = {field.name: field.type for field in self.only(*FIELDS)}
        return (types["key"], types["value"]) if types.keys() >= {"key", "value"} else None


@dataclass(slots=True)
class File(Element):
    """A schema, whose name is its package. No syntax means proto2.

    An import is its kind ("", "public" or "weak") and a path.
    """

    kind: str = "file"
    syntax: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


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
