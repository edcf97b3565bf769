"""The types of an Avro schema, and which JSON values may be their defaults."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from minibroker_registry.json_text import Json
from minibroker_registry.schema import InvalidSchemaError

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
INTEGER_RANGES: Final = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}
_TEXTUAL: Final = frozenset({"string", "bytes", "enum", "fixed"})
_MAX_ANSWERS: Final = 100_000


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


class Defaults:
    """Decides whether JSON values may be defaults of types. It remembers its answers, and its work is limited."""

    def __init__(self) -> None:
        self._answers: dict[tuple[int, int], bool] = {}

    def fits(self, node: Type, value: Json) -> bool:
        """Return whether a value may be a default of a type. The default of a union fits any branch.

        A record's own defaults are checked for themselves.

        Raises:
            InvalidSchemaError: Too many values had to be compared with too many types.
        """
        if not isinstance(value, dict | list):
            return self._fits(node, value)
        key = id(node), id(value)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _MAX_ANSWERS:
                raise InvalidSchemaError("The defaults of the schema take too much work to check")
            answer = self._answers[key] = self._fits(node, value)
        return answer

    def _fits(self, node: Type, value: Json) -> bool:
        kind, items = node.kind, node.items
        if kind == "union":
            return any(self.fits(branch, value) for branch in node.branches)
        if isinstance(value, list):
            return kind == "array" and items is not None and all(self.fits(items, element) for element in value)
        if isinstance(value, dict):
            if kind == "map" and items is not None:
                return all(self.fits(items, element) for element in value.values())
            return kind == "record" and all(
                self.fits(member.type, value[member.name]) if member.name in value else bool(member.default)
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
