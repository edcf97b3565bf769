"""The names in Protobuf schemas: what they mean in a scope, and the normalized form of a schema.

Names are looked up as Confluent's registry does: from the innermost scope outwards, in all files that are known. In
files that protoc accepts, this finds what protoc finds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple, TypeVar

from minibroker_registry.protobuf_elements import (
    FIELDS,
    Element,
    File,
    Option,
    Range,
    Value,
    Word,
    as_list,
    join_name,
    map_types,
)
from minibroker_registry.protobuf_text import MAX_NAME_CHARACTERS
from minibroker_registry.schema import InvalidSchemaError

SCALARS: Final = frozenset(
    {
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    }
)
_MAX_EXPONENT: Final = 400
_T = TypeVar("_T")
_AnyElement = TypeVar("_AnyElement", bound=Element)


class Type(NamedTuple):
    """A message or an enum, with its full name and the package of its file."""

    name: str
    element: Element
    package: str
    is_own: bool

    @property
    def local_name(self) -> str:
        """The name without the package."""
        return self.name[len(self.package) + 1 :] if self.package else self.name


class Extension(NamedTuple):
    """A field that is added to a message, with its full name and the scope of its definition."""

    name: str
    field: Element
    scope: str


class Names:
    """The types and extensions that a schema can refer to, by full name.

    Args:
        own: The file.
        others: Other files, those that it imports among them.

    Raises:
        InvalidSchemaError: a name is too long.
    """

    def __init__(self, own: File, others: Iterable[File]) -> None:
        self.own = own
        self.types: dict[str, Type] = {}
        self.extensions: dict[str, Extension] = {}
        for file in (*others, own):
            self._add(file.name, file, file)

    def _add(self, scope: str, block: Element, file: File) -> None:
        if len(scope) > MAX_NAME_CHARACTERS:
            raise InvalidSchemaError(f"A name has more than {MAX_NAME_CHARACTERS} characters: {scope[:80]} ...")
        for member in block.members:
            name = join_name(scope, member.name)
            if block.kind == "extend":
                self.extensions[name] = Extension(name, member, scope)
            if member.kind in ("message", "enum"):
                self.types[name] = Type(name, member, file.name, file is self.own)
            if member.kind == "message":
                self._add(name, member, file)
            elif member.kind in ("group", "oneof", "extend"):
                self._add(scope, member, file)

    def find(self, name: str, scope: str) -> Type | None:
        """Return the type that a name means in a scope, or None."""
        return _look_up(self.types, name, scope)

    def find_extension(self, name: str, scope: str) -> Extension | None:
        """Return the extension that a name means in a scope, or None."""
        return _look_up(self.extensions, name, scope)

    def resolve(self, name: str, scope: str, user: str) -> Type:
        """Return the type that a name means in a scope.

        Raises:
            InvalidSchemaError: there is none. The message names the user, such as a field.
        """
        found = self.find(name, scope)
        if found is None:
            raise InvalidSchemaError(f'{user}: the type "{name[:200]}" is neither defined nor imported.')
        return found

    def full_name(self, name: str, scope: str, user: str) -> str:
        """Return the full name, with a leading dot, of the type that a name stands for in a scope (see `resolve`)."""
        return f".{self.resolve(name, scope, user).name}"


def _look_up(table: Mapping[str, _T], name: str, scope: str) -> _T | None:
    if name.startswith("."):
        return table.get(name[1:])
    while scope:
        if found := table.get(f"{scope}.{name}"):
            return found
        scope = scope.rpartition(".")[0]
    return table.get(name)


def normalize(names: Names) -> File:
    """Return the schema in its normalized form, as Confluent's `normalize=true`.

    Fields, reserved numbers, constants and options are sorted, and names are full. Unlike Confluent's, fractions keep
    all their digits.

    Raises:
        InvalidSchemaError: a type is neither defined nor imported.
    """
    own, normalizer = names.own, _Normalizer(names)
    return replace(
        normalizer.plain(own, own.name),
        syntax="proto3" if own.syntax == "proto3" else "",
        imports=sorted(set(own.imports)),
        members=[
            *(normalizer.service(service, own.name) for service in own.only("service")),
            *normalizer.types(own, own.name),
            *normalizer.extends(own, own.name),
        ],
    )


class _Normalizer:
    """Normalizes elements. The argument `scope` is the full name of what contains an element."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def plain(self, element: _AnyElement, scope: str) -> _AnyElement:
        """Return an element whose options alone are normalized."""
        return replace(element, options=self.options(element.options, scope))

    def type(self, element: Element, scope: str) -> Element:
        """Return a message or an enum."""
        scope = join_name(scope, element.name)
        if element.kind == "message":
            return replace(self.plain(element, scope), members=self.members(element, scope))
        constants = sorted(element.only("constant"), key=lambda constant: (constant.number, constant.name))
        members = [*_split(element), *(self.plain(constant, scope) for constant in constants)]
        return replace(self.plain(element, scope), members=members)

    def members(self, message: Element, scope: str) -> list[Element]:
        """Return the members of a message."""
        one_ofs = [
            replace(self.plain(one_of, scope), members=self.fields(one_of.members, scope))
            for one_of in message.only("oneof")
            if one_of.members
        ]
        extensions = [
            replace(self.plain(element, scope), ranges=[_single(values)])
            for element in message.only("extensions")
            for values in element.ranges
            if not isinstance(values, str)
        ]
        return [
            *_split(message),
            *self.fields(message.only(*FIELDS), scope),
            *sorted(one_ofs, key=lambda one_of: one_of.members[0].number),
            *sorted(extensions, key=lambda element: element.ranges[0][0]),
            *self.extends(message, scope),
            *self.types(message, scope),
        ]

    def types(self, block: Element, scope: str) -> list[Element]:
        types = block.only("message", "enum")
        return [self.type(element, scope) for element in types if element.map_entry() is None]

    def extends(self, block: Element, scope: str) -> list[Element]:
        fields: dict[str, list[Element]] = {}
        for extend in block.only("extend"):
            extendee = self.names.full_name(extend.name, scope, f"extend {extend.name}")
            if extend.members:
                fields.setdefault(extendee, []).extend(extend.members)
        return [Element("extend", extendee, members=self.fields(fields[extendee], scope)) for extendee in fields]

    def fields(self, fields: Iterable[Element], scope: str) -> list[Element]:
        return [self.field(field, scope) for field in sorted(fields, key=lambda field: field.number)]

    def field(self, field: Element, scope: str) -> Element:
        normal = self.plain(field, scope)
        if field.kind == "group":
            normal.members = [self.type(message, scope) for message in field.members]
            return normal
        user = join_name(scope, field.name)
        types = map_types(field.type)
        if types is None and field.type not in SCALARS:
            found = self.names.resolve(field.type, scope, user)
            types = found.element.map_entry()
            normal.type = "." + found.name
        if types is not None:
            key, value = types
            value = value if value in SCALARS else self.names.full_name(value, scope, user)
            normal.label, normal.type = "", f"map<{key}, {value}>"
        return normal

    def service(self, service: Element, scope: str) -> Element:
        def full(written: str, rpc: Element) -> str:
            stream, _, name = written.rpartition(" ")
            user = f"{join_name(scope, service.name)}.{rpc.name}"
            return f"{stream} {self.names.full_name(name, scope, user)}".lstrip()

        members = [
            replace(self.plain(rpc, scope), type=full(rpc.type, rpc), returns=full(rpc.returns, rpc))
            for rpc in service.members
        ]
        return replace(self.plain(service, scope), members=members)

    def options(self, options: list[Option], scope: str) -> list[Option]:
        """Return options sorted by name. Several options for parts of one message become one."""
        if not options:
            return []
        normalized: dict[str, list[Option]] = {}
        extensions: dict[str, Extension] = {}
        for option in options:
            extension = self.names.find_extension(option.name, scope) if option.parenthesized else None
            name, value = option.name, option.value
            if extension is not None:
                extensions[extension.name] = extension
                name, value = extension.name, _as_map(value)
            normalized.setdefault(name, []).append(Option(name, self.value(value, scope), option.parenthesized))
        result: list[Option] = []
        for name in sorted(normalized):
            same, extension = normalized[name], extensions.get(name)
            if extension is not None and extension.field.label != "repeated" and len(same) > 1:
                value = self.merge([option.value for option in same], extension.field, extension.scope)
                same = [Option(name, self.value(value, scope), parenthesized=True)]
            result += same
        return result

    def merge(self, values: list[Value], field: Element | None, scope: str) -> Value:
        """Return the value of a field that several options give parts of."""
        if len(values) == 1:
            return values[0]
        if field is None or field.label == "repeated":
            unique = {repr(element): element for value in values for element in as_list(value)}
            return list(unique.values())
        parts: dict[str, list[Value]] = {}
        for value in values:
            if not isinstance(value, dict):
                return values[-1]
            for key, part in value.items():
                parts.setdefault(key, []).append(part)
        found = self.names.find(field.type, scope)
        fields = {field.name: field for field, _ in found.element.fields()} if found else {}
        inner = found.name if found else scope
        return {key: self.merge(parts[key], fields.get(key), inner) for key in parts}

    def value(self, value: Value, scope: str) -> Value:
        """Return a value with sorted keys, where a list of one value is that value."""
        if isinstance(value, Option):
            return Option(value.name, self.value(value.value, scope), value.parenthesized)
        if isinstance(value, dict):
            result: dict[str, Value] = {}
            for key, element in value.items():
                if element == []:
                    continue
                extension = self.names.find_extension(key[1:-1], scope) if key.startswith("[") else None
                part = self.value(element, scope)
                part = part[0] if isinstance(part, list) and len(part) == 1 else part
                result.setdefault(f"[{extension.name}]" if extension else key, part)
            return {key: result[key] for key in sorted(result)}
        if isinstance(value, list):
            return [self.value(element, scope) for element in value]
        return decimal(value)


def _as_map(value: Value) -> Value:
    """Return the value of `(name).part = ...` as a message with that part."""
    if not isinstance(value, Option):
        return value
    return {f"[{value.name}]" if value.parenthesized else value.name: _as_map(value.value)}


def _single(values: Range) -> Range:
    return values[:1] if values[0] == values[-1] else values


def _split(element: Element) -> list[Element]:
    """Return reserved numbers and names as statements of their own, numbers first."""
    values = [value for statement in element.only("reserved") for value in statement.ranges]
    numbers = sorted((_single(value) for value in values if not isinstance(value, str)), key=lambda r: (r[0], len(r)))
    names = sorted(value for value in values if isinstance(value, str))
    sorted_values: list[Range | str] = [*numbers, *names]
    return [Element("reserved", ranges=[value]) for value in sorted_values]


def decimal(value: str) -> str:
    """Return a value, and a number in decimal notation."""
    if not isinstance(value, Word) or not value.lstrip("-.")[:1].isdecimal():
        return value
    digits = value.lstrip("-")
    sign = "-" if value.startswith("-") else ""
    try:
        if digits.isdecimal():
            return Word(f"{sign}{int(digits, 8 if digits.startswith('0') and digits != '0' else 10)}")
        if digits[:2] in ("0x", "0X"):
            return Word(f"{sign}{int(digits, 16)}")
        number = Decimal(digits.rstrip("fF"))
    except (ValueError, InvalidOperation):
        return value
    if not number.is_finite() or abs(number.adjusted()) > _MAX_EXPONENT:
        return value
    text = format(number, "f")
    return Word(sign + (text.rstrip("0").rstrip(".") if "." in text else text) or "0")
