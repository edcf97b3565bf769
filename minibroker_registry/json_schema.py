"""JSON Schema, drafts 4 to 2020-12."""

import functools
import json
from collections.abc import Mapping

from minibroker_protocol.lazy_imports import lazy
from minibroker_registry.json_differences import differences
from minibroker_registry.json_nodes import Documents, Loader, draft_of, with_definitions
from minibroker_registry.json_text import Json, big_decimal, dump, load, refuse_constant
from minibroker_registry.schema import InvalidSchemaError, Parsed

with lazy:
    from minibroker_registry import json_data


def parse(text: str, references: Mapping[str, str], *, is_new: bool = True) -> "JsonSchema":
    """Parse a schema (see `schema`). The drafts that have no rules here count as draft 7, as in Confluent."""
    return JsonSchema(text, references, is_new=is_new)


class JsonSchema(Parsed):
    """A parsed JSON Schema.

    Attributes:
        root: The node of the whole schema.
    """

    def __init__(self, text: str, references: Mapping[str, str], *, is_new: bool) -> None:
        document = load(text)
        self._document = document
        self.canonical = dump(document, big_decimal)
        root = with_definitions(document)
        documents = {name: with_definitions(load(reference)) for name, reference in references.items()}
        self._documents = Documents(root, documents, draft_of(document))
        loader = Loader(self._documents)
        self.root = loader.load(root)
        self._schemas = loader.nodes.keys()
        reserved = [name for name in self.root.properties if name.startswith("$$")]
        if is_new and reserved:
            raise InvalidSchemaError(f"#/properties/{reserved[0]}: Field names cannot start with $$")

    @functools.cached_property
    def normalized(self) -> str:  # type: ignore[override] # made when it is asked for
        """The text for `normalize=true`, with the keys of all objects sorted."""
        return dump(self._document, big_decimal, sort_keys=True)

    def record_name(self, payload: bytes) -> str | None:  # noqa: ARG002 - for Protobuf
        """Return the title of the schema, or None."""
        title = self._root_keyword("title")
        return title if isinstance(title, str) else None

    def field_names(self) -> set[str]:
        """Return the names of the properties of the outermost object."""
        properties = self._root_keyword("properties")
        return {*properties} if isinstance(properties, dict) else set()

    def _root_keyword(self, name: str) -> Json:
        return self._document.get(name) if isinstance(self._document, dict) else None

    def incompatibilities(self, writer: Parsed, *, lenient: bool = False) -> list[str]:
        """Return why data of `writer` may be invalid under this schema (see `Parsed`)."""
        assert isinstance(writer, JsonSchema)
        return differences(writer.root, self.root, lenient=lenient)

    def decode(self, payload: bytes, *, with_branches: bool = False) -> object:  # noqa: ARG002 - for Avro
        """Return the value of a payload, if it is valid (see `Parsed`)."""
        try:
            value = json.loads(payload.decode("utf-8-sig"), parse_constant=refuse_constant)
            if b"\\u" in payload:  # Half of a surrogate pair becomes a question mark, as when Java writes UTF-8.
                value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        except RecursionError:
            raise ValueError("The payload is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"The payload is not JSON: {error}") from None
        self._validator.check(value, len(payload))
        return value

    def encode(self, value: object, message: str | None = None) -> bytes:  # noqa: ARG002 - for Protobuf
        """Return the payload of a value, if it is valid (see `Parsed`)."""
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"The value is not JSON: {error}") from None
        payload = text.encode()
        self._validator.check(value, len(payload))
        return payload

    @functools.cached_property
    def _validator(self) -> "json_data.Validator":
        return json_data.Validator(self._documents, self._schemas)
