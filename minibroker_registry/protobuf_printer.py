"""The text of Protobuf schemas as it is stored, in the layout of Confluent's registry.

Strings are in double quotes, and elements are in this order: syntax, package, imports, options, messages, enums,
extensions, services. Weak imports are left out. An empty line inside a nested block has the indentation of the block.
Two things differ from Confluent's text, which cannot be parsed or means something else there: defaults of bytes are in
quotes, and bytes that are not UTF-8 are octal escapes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from minibroker_registry import protobuf_elements as elements
from minibroker_registry.protobuf_elements import ESCAPES, MAX_TAG, Value, Word, only

_T = TypeVar("_T")
_ESCAPES: Final = str.maketrans(
    {character: f"\\{letter}" for letter, character in ESCAPES.items()}
    | {character: f"\\{character}" for character in "\\'\""}
    | {chr(code): f"\\{code & 0xFF:03o}" for code in (0, *range(0xDC80, 0xDD00))}
)


def file_text(file: elements.File) -> str:
    """Return the stored text of a schema."""
    head: list[str] = []
    if file.syntax:
        head.append(f'syntax = "{file.syntax}";')
    if file.package:
        head.append(f"package {file.package};")
    sections: list[list[str]] = [
        [
            f"import {f'{kind} ' if kind else ''}{_quoted(path)};"
            for wanted in ("", "public")
            for kind, path in file.imports
            if kind == wanted
        ],
        _option_lines(file.options, ""),
        _types(file.members, ""),
        _each(_extend, only(elements.Extend, file.members), ""),
        _each(_service, file.services, ""),
    ]
    for section in sections:
        if section:
            head.append("")
            head.extend(section)
    return "".join(f"{line}\n" for line in head)


def _block(header: str, sections: Sequence[list[str]], indent: str) -> list[str]:
    """Return the lines of a block in braces, with an empty line between its sections."""
    lines = [f"{indent}{header} {{"]
    for section in sections:
        if section:
            if len(lines) > 1:
                lines.append(indent)
            lines.extend(section)
    if len(lines) == 1:
        return [lines[0] + "}"]
    lines.append(f"{indent}}}")
    return lines


def _each(render: Callable[[_T, str], list[str]], members: Iterable[_T], indent: str) -> list[str]:
    return [line for member in members for line in render(member, indent)]


def _types(members: Iterable[object], indent: str) -> list[str]:
    messages, enums = only(elements.Message, members), only(elements.Enum, members)
    return [*_each(_message, messages, indent), *_each(_enum, enums, indent)]


def _message(message: elements.Message, indent: str, header: str = "") -> list[str]:
    deeper = indent + "  "
    fields = only(elements.Field, message.members)
    sections = [
        [f"{deeper}reserved {_ranges(values)};" for values in message.reserved],
        _option_lines(message.options, deeper),
        _each(_field, (field for field in fields if field.group is None), deeper),
        _each(_one_of, only(elements.OneOf, message.members), deeper),
        _each(_field, (field for field in fields if field.group is not None), deeper),
        [_extensions(extensions, deeper) for extensions in message.extensions],
        _each(_extend, only(elements.Extend, message.members), deeper),
        _types(message.members, deeper),
    ]
    return _block(header or f"message {message.name}", sections, indent)


def _field(field: elements.Field, indent: str) -> list[str]:
    label = f"{field.label} " if field.label else ""
    declaration = f"{label}{field.type} {field.name} = {field.tag}{_bracketed(field.options, indent)}"
    if field.group is not None:
        return _message(field.group, indent, declaration)
    return [f"{indent}{declaration};"]


def _one_of(one_of: elements.OneOf, indent: str) -> list[str]:
    deeper = indent + "  "
    sections = [
        _option_lines(one_of.options, deeper),
        _each(_field, (field for field in one_of.fields if field.group is None), deeper),
        _each(_field, (field for field in one_of.fields if field.group is not None), deeper),
    ]
    return _block(f"oneof {one_of.name}", sections, indent)


def _enum(enum: elements.Enum, indent: str) -> list[str]:
    deeper = indent + "  "
    lines = [f"{deeper}reserved {_ranges(values)};" for values in enum.reserved]
    lines += _option_lines(enum.options, deeper)
    for constant in enum.constants:
        lines.append(f"{deeper}{constant.name} = {constant.number}{_bracketed(constant.options, deeper)};")
    return _block(f"enum {enum.name}", [lines], indent)


def _extend(extend: elements.Extend, indent: str) -> list[str]:
    return _block(f"extend {extend.name}", [_each(_field, extend.fields, indent + "  ")], indent)


def _extensions(extensions: elements.Extensions, indent: str) -> str:
    return f"{indent}extensions {_ranges(extensions.ranges)}{_bracketed(extensions.options, indent)};"


def _service(service: elements.Service, indent: str) -> list[str]:
    deeper = indent + "  "
    sections = [_option_lines(service.options, deeper), _each(_rpc, service.rpcs, deeper)]
    return _block(f"service {service.name}", sections, indent)


def _rpc(rpc: elements.Rpc, indent: str) -> list[str]:
    request = f"{'stream ' if rpc.streams_request else ''}{rpc.request}"
    response = f"{'stream ' if rpc.streams_response else ''}{rpc.response}"
    declaration = f"{indent}rpc {rpc.name} ({request}) returns ({response})"
    if not rpc.options:
        return [f"{declaration};"]
    return [f"{declaration} {{", *_option_lines(rpc.options, indent + "  "), f"{indent}}};"]


def _ranges(values: Sequence[elements.Range | str]) -> str:
    texts: list[str] = []
    for value in values:
        if isinstance(value, str):
            texts.append(_quoted(value))
        elif len(value) == 1:
            texts.append(str(value[0]))
        else:
            texts.append(f"{value[0]} to {value[1] if value[1] < MAX_TAG else 'max'}")
    return ", ".join(texts)


def _option_lines(options: Sequence[elements.Option], indent: str) -> list[str]:
    """Return options as statements."""
    return [f"{indent}option {_indented(_option(option), indent)};" for option in options]


def _bracketed(options: Sequence[elements.Option], indent: str) -> str:
    """Return the options of an element as they follow it, in brackets."""
    return f" {_indented(_list([_option(option) for option in options]), indent)}" if options else ""


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


def _option(option: elements.Option) -> str:
    name = f"({option.name})" if option.parenthesized else option.name
    if isinstance(option.value, elements.Option):
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
