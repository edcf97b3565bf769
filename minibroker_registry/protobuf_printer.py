"""The text of Protobuf schemas as it is stored, in the layout of Confluent's registry.

Strings are in double quotes, and elements are in this order: syntax, package, imports, options, messages, enums,
extensions, services. Weak imports are left out. An empty line inside a nested block has the indentation of the block.
Two things differ from Confluent's text, which cannot be parsed or means something else there: defaults of bytes are in
quotes, and bytes that are not UTF-8 are octal escapes.
"""

from collections.abc import Sequence
from typing import Final

from minibroker_registry.protobuf_elements import ESCAPES, MAX_TAG, Element, File, Option, Range, Value, Word

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
            return f"{element.kind} {_ranges(element.ranges)}"
        case "rpc":
            return f"rpc {element.name} ({element.type}) returns ({element.returns})"
        case _:
            return f"{element.kind} {element.name}"


def _ranges(values: Sequence[Range | str]) -> str:
    texts: list[str] = []
    for value in values:
        if isinstance(value, str):
            texts.append(_quoted(value))
        elif len(value) == 1:
            texts.append(str(value[0]))
        else:
            texts.append(f"{value[0]} to {value[1] if value[1] < MAX_TAG else 'max'}")
    return ", ".join(texts)


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
