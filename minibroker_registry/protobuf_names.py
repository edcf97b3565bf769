"""The names in Protobuf schemas: what they mean in a scope, and the normalized form of a schema.

Names are looked up as Confluent's registry does: from the innermost scope outwards, in all files that are known. In
files that protoc accepts, this finds what protoc finds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple, TypeVar

from minibroker_registry import protobuf_elements as elements
from minibroker_registry.protobuf_elements import Value, Word, as_list, join_name, map_types, only
from minibroker_registry.protobuf_tokens import MAX_NAME_CHARACTERS
from minibroker_registry.schema import InvalidSchemaError

SCALARS: Final = frozenset(
    {
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    }
)
_MAX_EXPONENT: Final = 400
_T = TypeVar("_T")


class Type(NamedTuple):
    """A message or an enum, with its full name and the package of its file."""

    name: str
    element: elements.Definition
    package: str
    is_own: bool

    @property
    def local_name(self) -> str:
        """The name without the package."""
        return self.name[len(self.package) + 1 :] if self.package else self.name

    def map_entry(self) -> tuple[str, str] | None:
        """Return the types of the key and the value if this is the entry message of a map."""
        return self.element.map_entry() if isinstance(self.element, elements.Message) else None


class Extension(NamedTuple):
    """A field that is added to a message, with its full name and the scope of its definition."""

    name: str
    field: elements.Field
    scope: str


class Names:
    """The types and extensions that a schema can refer to, by full name.

    Args:
        own: The file.
        others: Other files, those that it imports among them.

    Raises:
        InvalidSchemaError: a name is too long.
    """

    def __init__(self, own: elements.File, others: Iterable[elements.File]) -> None:
        self.own = own
        self.types: dict[str, Type] = {}
        self.extensions: dict[str, Extension] = {}
        self._resolved: dict[tuple[str, str], Type | None] = {}
        for file in (*others, own):
            self._add(file.package, file.members, file, is_own=file is own)

    def _add(self, scope: str, members: Iterable[object], file: elements.File, *, is_own: bool) -> None:
        if len(scope) > MAX_NAME_CHARACTERS:
            raise InvalidSchemaError(f"A name has more than {MAX_NAME_CHARACTERS} characters: {scope[:80]} ...")
        for member in members:
            if isinstance(member, elements.Extend):
                for field in member.fields:
                    name = join_name(scope, field.name)
                    self.extensions[name] = Extension(name, field, scope)
            element = member.group if isinstance(member, elements.Field) else member
            if isinstance(element, elements.Definition):
                name = join_name(scope, element.name)
                self.types[name] = Type(name, element, file.package, is_own)
                if isinstance(element, elements.Message):
                    self._add(name, element.members, file, is_own=is_own)
            elif isinstance(member, elements.OneOf | elements.Extend):
                self._add(scope, [field for field in member.fields if field.group], file, is_own=is_own)

    def find(self, name: str, scope: str) -> Type | None:
        """Return the type that a name means in a scope, or None."""
        key = name, scope
        if key not in self._resolved:
            self._resolved[key] = _look_up(self.types, name, scope)
        return self._resolved[key]

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


def _look_up(table: Mapping[str, _T], name: str, scope: str) -> _T | None:
    if name.startswith("."):
        return table.get(name[1:])
    while scope:
        if found := table.get(f"{scope}.{name}"):
            return found
        scope = scope.rpartition(".")[0]
    return table.get(name)


def normalize(names: Names) -> elements.File:
    """Return the schema in its normalized form, as Confluent's `normalize=true`.

    Fields, reserved numbers, constants and options are sorted, and names are full. Unlike Confluent's, fractions keep
    all their digits.

    Raises:
        InvalidSchemaError: a type is neither defined nor imported.
    """
    own = names.own
    normalizer = _Normalizer(names)
    services = [
        replace(
            service,
            options=normalizer.options(service.options, own.package),
            rpcs=[normalizer.rpc(rpc, own.package, service.name) for rpc in service.rpcs],
        )
        for service in own.services
    ]
    return elements.File(
        "proto3" if own.syntax == "proto3" else "",
        own.package,
        sorted(set(own.imports)),
        normalizer.options(own.options, own.package),
        [*normalizer.types(own.members, own.package), *normalizer.extends(own.members, own.package)],
        services,
    )


class _Normalizer:
    """Normalizes elements. The argument `scope` is the full name of what contains an element."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def types(self, members: Iterable[object], scope: str) -> Iterator[elements.Definition]:
        for element in members:
            if isinstance(element, elements.Enum):
                yield self.enum(element, join_name(scope, element.name))
            elif isinstance(element, elements.Message) and element.map_entry() is None:
                yield self.message(element, join_name(scope, element.name))

    def enum(self, enum: elements.Enum, scope: str) -> elements.Enum:
        constants = [
            elements.Constant(constant.name, constant.number, self.options(constant.options, scope))
            for constant in sorted(enum.constants, key=lambda constant: (constant.number, constant.name))
        ]
        return elements.Enum(enum.name, constants, self.options(enum.options, scope), _split(enum.reserved))

    def message(self, message: elements.Message, scope: str) -> elements.Message:
        one_ofs = [
            elements.OneOf(one_of.name, self.fields(one_of.fields, scope), self.options(one_of.options, scope))
            for one_of in only(elements.OneOf, message.members)
            if one_of.fields
        ]
        one_ofs.sort(key=lambda one_of: one_of.fields[0].tag)
        extensions = [
            elements.Extensions([_single(values)], self.options(element.options, scope))
            for element in message.extensions
            for values in element.ranges
        ]
        return elements.Message(
            message.name,
            [
                *self.fields(only(elements.Field, message.members), scope),
                *one_ofs,
                *self.extends(message.members, scope),
                *self.types(message.members, scope),
            ],
            self.options(message.options, scope),
            _split(message.reserved),
            sorted(extensions, key=lambda element: element.ranges[0][0]),
        )

    def extends(self, members: Iterable[object], scope: str) -> list[elements.Extend]:
        fields: dict[str, list[elements.Field]] = {}
        for extend in only(elements.Extend, members):
            extendee = "." + self.names.resolve(extend.name, scope, f"extend {extend.name}").name
            if extend.fields:
                fields.setdefault(extendee, []).extend(extend.fields)
        return [elements.Extend(extendee, self.fields(fields[extendee], scope)) for extendee in fields]

    def fields(self, fields: Iterable[elements.Field], scope: str) -> list[elements.Field]:
        return [self.field(field, scope) for field in sorted(fields, key=lambda field: field.tag)]

    def field(self, field: elements.Field, scope: str) -> elements.Field:
        options = self.options(field.options, scope)
        if field.group is not None:
            group = self.message(field.group, join_name(scope, field.group.name))
            return elements.Field(field.name, field.type, field.tag, field.label, options, group=group)
        label, user = field.label, join_name(scope, field.name)
        written = field.type
        types = map_types(written)
        if types is None and written not in SCALARS:
            found = self.names.resolve(written, scope, user)
            types = found.map_entry()
            written = "." + found.name
        if types is not None:
            key, value = types
            if value not in SCALARS:
                value = "." + self.names.resolve(value, scope, user).name
            label, written = "", f"map<{key}, {value}>"
        return elements.Field(field.name, written, field.tag, label, options)

    def rpc(self, rpc: elements.Rpc, scope: str, service: str) -> elements.Rpc:
        user = f"{join_name(scope, service)}.{rpc.name}"
        return replace(
            rpc,
            request="." + self.names.resolve(rpc.request, scope, user).name,
            response="." + self.names.resolve(rpc.response, scope, user).name,
            options=self.options(rpc.options, scope),
        )

    def options(self, options: list[elements.Option], scope: str) -> list[elements.Option]:
        """Return options sorted by name. Several options for parts of one message become one."""
        if not options:
            return []
        normalized: dict[str, list[elements.Option]] = {}
        extensions: dict[str, Extension] = {}
        for option in options:
            extension = self.names.find_extension(option.name, scope) if option.parenthesized else None
            name, value = option.name, option.value
            if extension is not None:
                extensions[extension.name] = extension
                name, value = extension.name, _as_map(value)
            normalized.setdefault(name, []).append(
                elements.Option(name, self.value(value, scope), option.parenthesized)
            )
        result: list[elements.Option] = []
        for name in sorted(normalized):
            same, extension = normalized[name], extensions.get(name)
            if extension is not None and extension.field.label != "repeated" and len(same) > 1:
                value = self.merge([option.value for option in same], extension.field, extension.scope)
                same = [elements.Option(name, self.value(value, scope), parenthesized=True)]
            result += same
        return result

    def merge(self, values: list[Value], field: elements.Field | None, scope: str) -> Value:
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
        message = found.element if found else None
        fields = {field.name: field for field, _ in message.fields()} if isinstance(message, elements.Message) else {}
        inner = found.name if found else scope
        return {key: self.merge(parts[key], fields.get(key), inner) for key in parts}

    def value(self, value: Value, scope: str) -> Value:
        """Return a value with sorted keys, where a list of one value is that value."""
        if isinstance(value, elements.Option):
            return elements.Option(value.name, self.value(value.value, scope), value.parenthesized)
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
    if not isinstance(value, elements.Option):
        return value
    return {f"[{value.name}]" if value.parenthesized else value.name: _as_map(value.value)}


def _single(values: elements.Range) -> elements.Range:
    return values[:1] if values[0] == values[-1] else values


def _split(reserved: Iterable[list[elements.Range | str]]) -> list[list[elements.Range | str]]:
    """Return reserved numbers and names as statements of their own, numbers first."""
    values = [value for statement in reserved for value in statement]
    numbers = sorted((_single(value) for value in values if not isinstance(value, str)), key=lambda r: (r[0], len(r)))
    names = sorted(value for value in values if isinstance(value, str))
    sorted_values: list[elements.Range | str] = [*numbers, *names]
    return [[value] for value in sorted_values]


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
