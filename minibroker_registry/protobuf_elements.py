"""The elements of Protobuf schemas, as a text has them, and that text.

Elements keep what the stored text needs and what descriptors lose: type names as written, the order of options, and
numbers in the base that they were written in.

The text has the layout of Confluent's registry. Strings are in double quotes, and elements are in this order: syntax,
package, imports, options, messages, enums, extensions, services. Weak imports are left out. An empty line inside a
nested block has the indentation of the block. Two things differ from Confluent's text, which cannot be parsed or means
something else there: defaults of bytes are in quotes, and bytes that are not UTF-8 are octal escapes.
"""

from collections.abc import Sequence
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


_ESCAPES: Final = str.maketrans(
    {character: f"\\{letter}" for letter, character in ESCAPES.items()}
    | {character: f"\\{character}" for character in "\\'\""}
    | {chr(code): f"\\{code & 0xFF:03o}" for code in (0, *range(0xDC80, 0xDD00))}
)
_SECTIONS: Final = {
    "file": ("option", "message enum", "extend", "service"),
    "message": ("reserved", "option", "field", "oneof", "group", "extensions", "extend", "message enum"),
    "oneof": ("option", "field", "group"),
    "extend": ("member",),
    "enum": ("reserved option constant",),
    "service": ("option", "rpc"),
    "rpc": ("option",),
}
"""The kinds of what stands in braces, in the order in which it is printed. Between sections is an empty line.

The kind `member` means all members in the order of the text.
"""


def file_text(file: File) -> str:
    """Return the stored text of a schema."""
    lines: list[str] = []
    if file.syntax:
        lines.append(f'syntax = "{file.syntax}";')
    if file.name:
        lines.append(f"package {file.name};")
    imports = [
        f"import {f'{kind} ' if kind else ''}{_quoted(path)};"
        for wanted in ("", "public")
        for kind, path in file.imports
        if kind == wanted
    ]
    for section in (imports, *_sections(file, "")):
        if section:
            lines += ["", *section]
    return "".join(f"{line}\n" for line in lines)


def _sections(block: Element, indent: str) -> list[list[str]]:
    """Return the lines of each section of a file, or of what an element has in braces."""
    return [
        [line for kind in kinds.split() for line in _lines_of_kind(block, kind, indent)]
        for kinds in _SECTIONS[block.kind]
    ]


def _lines_of_kind(block: Element, kind: str, indent: str) -> list[str]:
    if kind == "option":
        return [f"{indent}option {_indented(_option(option), indent)};" for option in block.options]
    members = block.members if kind == "member" else block.only(kind)
    return [line for member in members for line in _element(member, indent)]


def _element(element: Element, indent: str) -> list[str]:
    """Return the lines of an element."""
    head = f"{indent}{_head(element)}"
    if element.kind in ("field", "group", "constant", "extensions") and element.options:
        head += f" {_indented(_list([_option(option) for option in element.options]), indent)}"
    is_rpc = element.kind == "rpc"
    body = element.members[0] if element.kind == "group" else element
    if body.kind not in _SECTIONS or (is_rpc and not element.options):
        return [f"{head};"]
    lines = [f"{head} {{"]
    for section in _sections(body, indent + "  "):
        if section:
            lines += [indent, *section] if len(lines) > 1 else section
    if len(lines) == 1:
        return [lines[0] + "}"]
    return [*lines, f"{indent}}}{';' if is_rpc else ''}"]


def _head(element: Element) -> str:
    """Return what stands before the options, the braces or the semicolon."""
    match element.kind:
        case "field" | "group":
            label = f"{element.label} " if element.label else ""
            return f"{label}{element.type} {element.name} = {element.number}"
        case "constant":
            return f"{element.name} = {element.number}"
        case "reserved" | "extensions":
            return f"{element.kind} {', '.join(map(_range, element.ranges))}"
        case "rpc":
            return f"rpc {element.name} ({element.type}) returns ({element.returns})"
        case _:
            return f"{element.kind} {element.name}"


def _range(value: Range | str) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return " to ".join([str(value[0]), *(str(last) if last < MAX_TAG else "max" for last in value[1:])])


def _indented(text: str, indent: str) -> str:
    """Return a text with all lines but the first indented."""
    return text.replace("\n", f"\n{indent}") if "\n" in text else text


def _list(texts: Sequence[str]) -> str:
    """Return a list as it stands at the top level: on one line if it has one element."""
    return f"[{texts[0]}]" if len(texts) == 1 else _lines("[", texts, "]")


def _lines(opening: str, texts: Sequence[str], closing: str) -> str:
    """Return elements on lines of their own, in brackets."""
    lines = ",\n".join(f"  {_indented(text, '  ')}" for text in texts)
    return f"{opening}\n{lines}{chr(10) if lines else ''}{closing}"


def _option(option: Option) -> str:
    name = f"({option.name})" if option.parenthesized else option.name
    if isinstance(option.value, Option):
        return f"{name}.{_option(option.value)}"
    if isinstance(option.value, list):
        return f"{name} = {_list([value_text(value) for value in option.value])}"
    return f"{name} = {value_text(option.value)}"


def value_text(value: Value) -> str:
    """Return the value of an option."""
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return _lines("{", [f"{key}: {value_text(element)}" for key, element in value.items()], "}")
    if isinstance(value, list):
        return _lines("[", [value_text(element) for element in value], "]")
    return _option(value)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
