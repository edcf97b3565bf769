"""The types of an Avro schema."""

from dataclasses import dataclass, field
from typing import Final

from minibroker_registry.json_text import Json

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
INTEGER_RANGES: Final = {"int": range(-(1 << 31), 1 << 31), "long": range(-(1 << 63), 1 << 63)}


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
