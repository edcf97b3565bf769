"""Prints Avro's types as Java's Avro 1.12 does (its class Schema)."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from minibroker_registry.avro_types import NAMED, PRIMITIVES, Defaults, Field, Type
from minibroker_registry.json_text import MAX_DEPTH, Json, dump, java_double
from minibroker_registry.schema import InvalidSchemaError

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
    return dump(_Printer(set(known), is_normal=is_normal).json_of(root, "", 1), java_double)


class _Printer:
    """Turns types into JSON."""

    def __init__(self, known: set[str], *, is_normal: bool) -> None:
        self._known = known
        self._is_normal = is_normal
        self._defaults = Defaults()

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
        if node.name in self._known:
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
            fitting = (branch for branch in node.branches if self._defaults.fits(branch, value))
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
    json = _Printer(_EveryName(), is_normal=False).definition_of(named, "", 1)
    members = json.get("fields")
    for part in (json, *(members if isinstance(members, list) else ())):
        if isinstance(part, dict):
            part.pop("doc", None)
            part.pop("aliases", None)
    return dump(json, java_double)


class _EveryName(set[str]):
    """A set with all names, so that a printer defines none of them."""

    def __contains__(self, name: object) -> bool:
        return True
