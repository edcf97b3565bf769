"""Avro schemas."""

import functools
from collections.abc import Mapping
from typing import cast

from minibroker_registry import avro_compatibility, avro_data
from minibroker_registry.avro_parser import Parser
from minibroker_registry.avro_printer import print_type
from minibroker_registry.avro_types import Type
from minibroker_registry.schema import Parsed


def parse(text: str, references: Mapping[str, str], *, is_new: bool = True) -> "AvroSchema":
    """Parse a schema (see `schema.Parse`)."""
    parser = Parser(is_new=is_new)
    known = frozenset(parser.parse(reference).name for reference in references.values())
    return AvroSchema(parser.parse(text), known)


class AvroSchema(Parsed):
    """A parsed Avro schema.

    Attributes:
        root: The schema's outermost type.

    Args:
        root: The schema's outermost type.
        known: The full names of the references' outermost types.
    """

    def __init__(self, root: Type, known: frozenset[str]) -> None:
        self.root = root
        self._known = known
        self.canonical = print_type(root, known)

    @functools.cached_property
    def normalized(self) -> str:  # type: ignore[override] # made when it is asked for
        """The text for `normalize=true`."""
        return print_type(self.root, self._known, is_normal=True)

    def formatted(self, form: str) -> str:
        """Return the canonical text. In the form `resolved`, it defines the types of references, too."""
        return print_type(self.root, frozenset()) if form == "resolved" else self.canonical

    def record_name(self, payload: bytes) -> str:  # noqa: ARG002 - for Protobuf
        """Return the full name of the outermost type."""
        return self.root.name

    def incompatibilities(self, writer: Parsed, *, lenient: bool = False) -> list[str]:  # noqa: ARG002 - for JSON Schema
        """Return why a reader with this schema cannot read data of `writer` (see `Parsed`)."""
        assert isinstance(writer, AvroSchema)
        return avro_compatibility.incompatibilities(self.root, writer.root)

    def decode(self, payload: bytes) -> object:
        """Return the value of a payload (see `avro_data.decode`)."""
        return avro_data.decode(self.root, payload)

    def decode_with_branches(self, payload: bytes) -> object:
        """Return the value of a payload in Avro's JSON encoding (see `Parsed.decode_with_branches`)."""
        return avro_data.decode(self.root, payload, with_branches=True)

    def encode(self, value: object, message: str | None = None) -> bytes:  # noqa: ARG002 - for Protobuf
        """Return the payload of a value (see `avro_data.encode`)."""
        return avro_data.encode(self.root, cast("avro_data.Data", value))
