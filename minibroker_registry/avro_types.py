"""The types of an Avro schema, which are parsed and printed as Java's Avro 1.12 does (its class Schema)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import Final

from minibroker_registry.json_text import MAX_DEPTH, Json, dump, java_double, load
from minibroker_registry.schema import Deadline, InvalidSchemaError

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
INTEGER_RANGES: Final = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}
_TEXTUAL: Final = frozenset({"string", "bytes", "enum", "fixed"})


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record. `default` holds one JSON value, or none."""

    name: str
    type: "Type"
    doc: str | None
    default: tuple[Json, ...]
    order: str
    aliases: list[str]
    props: dict[str, Json]


@dataclass(slots=True, eq=False)
class Type:
    """A type of a schema. A name that is used several times is one object.

    Attributes:
        kind: `record`, `array` and so on, or empty while a name is used but not yet defined.
        name: The full name. For a type without a name, its kind.
        aliases: Full names.
        default: The default symbol of an enum.
        items: What an array or a map holds.
        props: The logical type, and what has no meaning for Avro.
    """

    kind: str
    name: str
    doc: str | None = None
    is_error: bool = False
    aliases: list[str] = field(default_factory=list[str])
    fields: list[Field] = field(default_factory=list[Field])
    symbols: list[str] = field(default_factory=list[str])
    default: str | None = None
    items: "Type | None" = None
    branches: "list[Type]" = field(default_factory=list["Type"])
    size: int = 0
    props: "dict[str, Json]" = field(default_factory=dict[str, Json])


def fits_default(node: Type, value: Json, deadline: Deadline) -> bool:
    """Return whether a value may be the default of a type. For a union, it may fit any branch.

    A record's own defaults are checked for themselves.
    """
    deadline.check()
    kind, items = node.kind, node.items
    if kind == "union":
        return any(fits_default(branch, value, deadline) for branch in node.branches)
    if isinstance(value, list):
        return kind == "array" and items is not None and all(fits_default(items, item, deadline) for item in value)
    if isinstance(value, dict):
        if kind == "map" and items is not None:
            return all(fits_default(items, element, deadline) for element in value.values())
        return kind == "record" and all(
            fits_default(member.type, value[member.name], deadline) if member.name in value else bool(member.default)
            for member in node.fields
        )
    return fits_scalar(kind, value)


def fits_scalar(kind: str, value: object) -> bool:
    """Return whether a JSON value that is no array and no object may stand for data of a kind of type."""
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, str):
        return kind in _TEXTUAL
    if isinstance(value, int) and kind in INTEGER_RANGES:
        return value in INTEGER_RANGES[kind]
    return kind in {"float", "double"} and isinstance(value, int | float | Decimal)


_TYPE_WORDS: Final = PRIMITIVES | NAMED | {"array", "map", "union"}
"""Names that are printed with their namespace, lest they be taken for a kind of type."""
_TIMES: Final = (
    "time-micros",
    *(f"{local}timestamp-{unit}s" for local in ("", "local-") for unit in ("milli", "micro", "nano")),
)
_LOGICAL_TYPES: Final = {
    **dict.fromkeys(("date", "time-millis"), ("int",)),
    **dict.fromkeys(_TIMES, ("long",)),
    "big-decimal": ("bytes",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}
"""Logical types, and the types that each annotates."""


def print_type(root: Type, known: frozenset[str], *, is_normal: bool = False) -> str:
    """Return the text of a type.

    Args:
        root: The type.
        known: The full names that the text does not define, because references do.
        is_normal: Whether to print what `normalize=true` asks for (Confluent's AvroSchemaUtils): sorted properties
            and aliases, no empty documentation, and defaults with the kind of number that their type has. Unlike
            Confluent, keep the default of a union that does not belong to its first branch.

    Raises:
        InvalidSchemaError: The types are nested too deeply.
    """
    return dump(_Printer(known, is_normal=is_normal).json_of(root, "", 1), java_double)


class _Printer:
    """Turns types into JSON.

    Args:
        known: The full names that are not defined, or None for all.
        is_normal: Whether to print what `normalize=true` asks for.
    """

    def __init__(self, known: frozenset[str] | None, *, is_normal: bool) -> None:
        self._known = None if known is None else {*known}
        self._is_normal = is_normal
        self._deadline = Deadline(error=InvalidSchemaError)

    def json_of(self, node: Type, namespace: str, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"The schema's types are nested more than {MAX_DEPTH} levels deep")
        if node.kind == "union":
            return [self.json_of(branch, namespace, depth + 1) for branch in node.branches]
        if node.kind in PRIMITIVES and not node.props:
            return node.kind
        if node.kind not in NAMED:
            json: dict[str, Json] = {"type": node.kind}
            if node.items is not None:
                word = "items" if node.kind == "array" else "values"
                json[word] = self.json_of(node.items, namespace, depth + 1)
            return json | self._print_props(node)
        if self._known is None or node.name in self._known:
            own_namespace, _, name = node.name.rpartition(".")
            is_short = own_namespace == namespace and name not in _TYPE_WORDS
            return name if is_short else node.name
        self._known.add(node.name)
        return self.definition_of(node, namespace, depth)

    def definition_of(self, node: Type, namespace: str, depth: int) -> dict[str, Json]:
        """Return the JSON that defines a named type."""
        own_namespace, _, name = node.name.rpartition(".")
        json: dict[str, Json] = {"type": "error" if node.is_error and not self._is_normal else node.kind, "name": name}
        if own_namespace != namespace:
            json["namespace"] = own_namespace
        if node.doc is not None and not (self._is_normal and not node.doc):
            json["doc"] = node.doc
        if node.kind == "record":
            json["fields"] = [self._print_field(member, own_namespace, depth + 2) for member in node.fields]
        elif node.kind == "enum":
            json["symbols"] = [*node.symbols]
            if node.default is not None:
                json["default"] = node.default
        else:
            json["size"] = node.size
        json |= self._print_props(node)
        if node.aliases:
            json["aliases"] = [*self._print_aliases(node, own_namespace)]
        return json

    def _print_aliases(self, node: Type, namespace: str) -> list[str]:
        aliases = node.aliases
        if self._is_normal:
            aliases = sorted(aliases, key=lambda alias: alias if "." in alias or not namespace else f".{alias}")
        parts = (alias.rpartition(".") for alias in aliases)
        return [name if space == namespace else f"{space}.{name}".lstrip(".") for space, _, name in parts]

    def _print_field(self, member: Field, namespace: str, depth: int) -> dict[str, Json]:
        json: dict[str, Json] = {"name": member.name, "type": self.json_of(member.type, namespace, depth)}
        if member.doc is not None:
            json["doc"] = member.doc
        if member.default:
            value = member.default[0]
            json["default"] = _sorted(self._typed(member.type, value)) if self._is_normal else value
        if member.order != "ascending":
            json["order"] = member.order
        if member.aliases:
            json["aliases"] = [*(sorted(member.aliases) if self._is_normal else member.aliases)]
        return json | (_sort_props(member.props, []) if self._is_normal else member.props)

    def _print_props(self, node: Type) -> dict[str, Json]:
        return _sort_props(node.props, _logical_props(node)) if self._is_normal else node.props

    def _typed(self, node: Type, value: Json) -> Json:
        """Return a default with a fraction wherever its type is float or double."""
        if node.kind == "union":
            fitting = (branch for branch in node.branches if fits_default(branch, value, self._deadline))
            return next((self._typed(branch, value) for branch in fitting), value)
        if node.kind in {"float", "double"} and isinstance(value, int):
            return Decimal(value)
        if node.items is not None:
            if isinstance(value, dict):
                return {key: self._typed(node.items, element) for key, element in value.items()}
            return [self._typed(node.items, element) for element in value] if isinstance(value, list) else value
        if node.kind == "record" and isinstance(value, dict):
            types = {member.name: member.type for member in node.fields}
            return {key: self._typed(types[key], each) if key in types else each for key, each in value.items()}
        return value


def _sort_props(props: dict[str, Json], first: Iterable[str]) -> dict[str, Json]:
    return {name: _sorted(props[name]) for name in (*first, *sorted(props.keys() - set(first)))}


def _logical_props(node: Type) -> list[str]:
    """Return the names of a logical type's properties in their normal order, or none if it is not one of Avro's."""
    logical = str(node.props.get("logicalType"))
    if node.kind not in _LOGICAL_TYPES.get(logical, ()):
        return []
    return [name for name in ("logicalType", "precision", "scale") if name in node.props]


def _sorted(value: Json) -> Json:
    """Return a JSON value with the keys of all objects sorted."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value


def signature(named: Type) -> str:
    """Return the text that decides whether two definitions of a name are equal: no documentation, no aliases."""
    json = _Printer(None, is_normal=False).definition_of(named, "", 1)
    members = json.get("fields")
    for part in (json, *(members if isinstance(members, list) else ())):
        if isinstance(part, dict):
            part.pop("doc", None)
            part.pop("aliases", None)
    return dump(json, java_double)


_RESERVED: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_ENUM_RESERVED: Final = _RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*(?:"|$))|/\*(?:.*?\*/|.*)|//[^\n]*', re.DOTALL)
"""A string, which is the group, or a comment. Avro's parser in Java skips comments."""
_MAX_SHOWN_CHARACTERS: Final = 1_000
_MAX_FIXED_BYTES: Final = (1 << 31) - 9
"""The largest array of Java."""


class Parser:
    """A parser that knows the names of all schemas it has parsed. Names may be used before they are defined.

    Args:
        is_new: Whether names and defaults are checked. Confluent reads older schemas without these checks.
    """

    def __init__(self, *, is_new: bool) -> None:
        self._is_new = is_new
        self._types: dict[str, Type] = {}
        self._undefined: set[str] = set()
        self._with_defaults: list[Field] = []
        self._deadline = Deadline(error=InvalidSchemaError)

    def parse(self, text: str) -> Type:
        """Parse the text of a schema.

        Raises:
            InvalidSchemaError: The text is not a schema.
        """
        root = self._parse(load(_COMMENT.sub(r"\1", text) if "/" in text else text), "", 1)
        if self._undefined:
            raise InvalidSchemaError(f"Undefined schema: {min(self._undefined)}")
        if self._is_new:
            for member in self._with_defaults:
                if not fits_default(member.type, member.default[0], self._deadline):
                    type_text = print_type(member.type, frozenset())
                    raise InvalidSchemaError(
                        f"Invalid default for field {member.name}: {_text(*member.default)} not a {type_text}"
                    )
        self._with_defaults.clear()
        return root

    def _parse(self, json: Json, namespace: str, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"The schema is nested more than {MAX_DEPTH} levels deep")
        if isinstance(json, str):
            return self._find(json, namespace)
        if isinstance(json, list):
            return self._parse_union(json, namespace, depth)
        if not isinstance(json, dict):
            raise InvalidSchemaError(f"Schema not yet supported: {_text(json)}")
        kind = _required(json, "type", "No type")
        if kind in PRIMITIVES:
            return Type(kind, kind, props=_props(json, _RESERVED))
        if kind in {"array", "map"}:
            word = "items" if kind == "array" else "values"
            if word not in json:
                raise InvalidSchemaError(f"{kind.capitalize()} has no {word} type: {_text(json)}")
            items = self._parse(json[word], namespace, depth + 1)
            return Type(kind, kind, items=items, props=_props(json, _RESERVED))
        if kind in {"record", "error", "enum", "fixed"}:
            return self._parse_named(json, kind, namespace, depth)
        return self._find(kind, namespace)

    def _find(self, name: str, namespace: str) -> Type:
        """Return the type with this name, in the namespace or in none. It may be defined later."""
        if name in PRIMITIVES:
            return Type(name, name)
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        for candidate in (full_name, name):
            known = self._types.get(candidate)
            if known is not None and (known.kind or candidate == full_name):
                return known
        self._undefined.add(full_name)
        return self._types.setdefault(full_name, Type("", full_name))

    def _parse_union(self, json: list[Json], namespace: str, depth: int) -> Type:
        branches = [self._parse(branch, namespace, depth + 1) for branch in json]
        names: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchemaError(f"Nested union: {_text(json)}")
            if branch.name in names:
                raise InvalidSchemaError(f"Duplicate in union: {branch.name}")
            names.add(branch.name)
        return Type("union", "union", branches=branches)

    def _parse_named(self, json: dict[str, Json], kind: str, namespace: str, depth: int) -> Type:
        given_namespace = json.get("namespace")
        name = _required(json, "name", "No name in schema")
        full_name = _full_name(name, given_namespace if isinstance(given_namespace, str) else namespace)
        if full_name in PRIMITIVES:
            raise InvalidSchemaError(f"Schemas may not be named after primitives: {full_name}")
        for part in full_name.split("."):
            self._check_name(part, full_name)
        namespace = full_name.rpartition(".")[0]
        named = Type("record" if kind == "error" else kind, full_name, _string(json.get("doc")), kind == "error")
        if named.kind == "record":
            named.fields = self._parse_fields(json, full_name, namespace, depth)
        elif kind == "enum":
            self._parse_symbols(json, named)
        else:
            size = json.get("size")
            if isinstance(size, bool) or not isinstance(size, int):
                raise InvalidSchemaError(f"Invalid or no size: {_text(json)}")
            if not 0 <= size <= _MAX_FIXED_BYTES:
                raise InvalidSchemaError(f"The size of {full_name} is not between 0 and {_MAX_FIXED_BYTES}: {size}")
            named.size = size
        named.props = _props(json, _ENUM_RESERVED if kind == "enum" else _RESERVED)
        named.aliases = [_full_name(alias, namespace) for alias in _aliases(json)]
        return self._define(named)

    def _parse_fields(self, json: dict[str, Json], record: str, namespace: str, depth: int) -> list[Field]:
        members = json.get("fields")
        if not isinstance(members, list):
            raise InvalidSchemaError(f"Record has no fields: {_text(json)}")
        parsed: dict[str, Field] = {}
        for member in members:
            if not isinstance(member, dict):
                raise InvalidSchemaError(f"No field name: {_text(member)}")
            name = _required(member, "name", "No field name")
            self._check_name(name, f"{record}.{name}")
            if name in parsed:
                raise InvalidSchemaError(f"Duplicate field {name} in record {record}")
            parsed[name] = self._parse_field(member, f"{record}.{name}", namespace, depth)
        return list(parsed.values())

    def _parse_field(self, json: dict[str, Json], full_name: str, namespace: str, depth: int) -> Field:
        if "type" not in json:
            raise InvalidSchemaError(f"No field type: {_text(json)}")
        type_ = self._parse(json["type"], namespace, depth + 2)
        order = json.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchemaError(f"The order of field {full_name} is none of {sorted(_ORDERS)}")
        default: tuple[Json, ...] = (json["default"],) if "default" in json else ()
        if default and type_.kind in {"float", "double"} and isinstance(default[0], str):
            try:
                default = (Decimal(default[0]),)
            except InvalidOperation:
                raise InvalidSchemaError(f"The default of field {full_name} is not a number: {default[0]!r}") from None
        name = full_name.rpartition(".")[2]
        props = _props(json, _FIELD_RESERVED)
        parsed = Field(name, type_, _string(json.get("doc")), default, order.lower(), _aliases(json), props)
        if default:
            self._with_defaults.append(parsed)
        return parsed

    def _parse_symbols(self, json: dict[str, Json], enum: Type) -> None:
        symbols = json.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchemaError(f"Enum has no symbols: {_text(json)}")
        known: dict[str, None] = {}
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise InvalidSchemaError(f"A symbol of {enum.name} is not a string: {_text(symbol)}")
            self._check_name(symbol, f"{enum.name}.{symbol}")
            if symbol in known:
                raise InvalidSchemaError(f"Duplicate enum symbol: {symbol}")
            known[symbol] = None
        enum.symbols, enum.default = list(known), _string(json.get("default"))
        if enum.default is not None and enum.default not in known:
            raise InvalidSchemaError(f"The Enum Default: {enum.default} is not in the enum symbol set: {symbols}")

    def _check_name(self, name: str, where: str) -> None:
        if not name:
            raise InvalidSchemaError(f"Empty name in {where!r}")
        if self._is_new and not _NAME.fullmatch(name):
            raise InvalidSchemaError(f"Illegal character in name {name!r} of {where!r}")

    def _define(self, named: Type) -> Type:
        """Return the object that stands for a definition: an earlier equal one, or one that was used before."""
        known = self._types.setdefault(named.name, named)
        if known is named:
            return named
        if not known.kind:
            for slot in fields(named):
                setattr(known, slot.name, getattr(named, slot.name))
            self._undefined.discard(named.name)
        elif signature(known) != signature(named):
            raise InvalidSchemaError(f"Can't redefine: {named.name}")
        return known


def _full_name(name: str, namespace: str) -> str:
    """Return a full name. The namespace counts only if the name has no dot; a leading dot means no namespace."""
    return (f"{namespace}.{name}" if namespace and "." not in name else name).removeprefix(".")


def _text(json: Json) -> str:
    """Return JSON for a message, cut if it is long."""
    text = dump(json, java_double)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def _required(json: dict[str, Json], key: str, message: str) -> str:
    value = json.get(key)
    if not isinstance(value, str):
        raise InvalidSchemaError(f"{message}: {_text(json)}")
    return value


def _string(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _aliases(json: dict[str, Json]) -> list[str]:
    """Return the aliases as they are written, each once."""
    aliases = json.get("aliases", [])
    names = [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []
    if not isinstance(aliases, list) or len(names) < len(aliases):
        raise InvalidSchemaError(f"The aliases are not an array of strings: {_text(json)}")
    return list(dict.fromkeys(names))


def _props(json: dict[str, Json], reserved: frozenset[str]) -> dict[str, Json]:
    return {key: value for key, value in json.items() if key not in reserved}
