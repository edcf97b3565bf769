"""A parser of Avro schemas that accepts what Java's Avro 1.12 does (its class Schema.Parser)."""

import re
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import Final

from minibroker_registry.avro_printer import print_type, signature
from minibroker_registry.avro_types import PRIMITIVES, Defaults, Field, Type
from minibroker_registry.json_text import MAX_DEPTH, Json, dump, java_double, load
from minibroker_registry.schema import InvalidSchemaError

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
        self._defaults = Defaults()

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
                if not self._defaults.fits(member.type, *member.default):
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
