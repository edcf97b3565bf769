"""The schema formats. Their modules are loaded with the first schema of the format, since they need large packages."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker_registry import subjects
from minibroker_registry.errors import INVALID_SCHEMA, RegistryError
from minibroker_registry.records import Version
from minibroker_registry.schema import InvalidSchemaError, Parse, Parsed, Reference

_MODULES: Final = {"JSON": "json_schema", "PROTOBUF": "protobuf", "AVRO": "avro"}
KINDS: Final = tuple(_MODULES)
"""The formats in the order in which Confluent lists them."""
_MAX_CACHED_CHARACTERS: Final = 1 << 19
"""A parsed schema takes up to 30 times the memory of its text. A full garbage collection visits all of its objects."""
_MAX_QUOTED_CHARACTERS: Final = 1000
_Key = tuple[str, str, tuple[tuple[str, str], ...], bool]


class Formats:
    """Parses schemas, and keeps the newest results. The sum of the kept texts is limited."""

    def __init__(self) -> None:
        self._parsed: dict[_Key, Parsed] = {}
        self._size = 0

    def parse(self, kind: str, text: str, references: Mapping[str, str], *, is_new: bool) -> Parsed:
        """Parse a schema, or return the result of an earlier call.

        Args:
            kind: AVRO, JSON or PROTOBUF.
            text: The schema's text.
            references: The texts of all references by name, dependencies first.
            is_new: Whether the schema is to be registered. A schema from the topic is not checked as strictly.

        Raises:
            InvalidSchemaError: the text is not a valid schema.
        """
        module = _MODULES.get(kind)
        if module is None:
            raise InvalidSchemaError(f"Invalid schema type {kind}")
        if not text.strip():
            raise InvalidSchemaError("Empty schema")
        key = (kind, text, tuple(references.items()), is_new)
        parsed = self._parsed.get(key)
        if parsed is None:
            parse: Parse = importlib.import_module(f"{__package__}.{module}").parse
            parsed = parse(text, references, is_new=is_new)
            self._keep(key, parsed)
            self._keep((kind, parsed.canonical, key[2], False), parsed)
        return parsed

    def parse_version(self, version: Version, find: "FindVersion") -> Parsed:
        """Parse the schema of a registered version.

        Raises:
            InvalidSchemaError: the schema is not valid, or a reference does not exist.
        """
        content = version.content
        references = resolve_references(version.subject, content.references, find)
        return self.parse(content.kind, content.text, references, is_new=False)

    def _keep(self, key: _Key, parsed: Parsed) -> None:
        if key not in self._parsed:
            self._parsed[key] = parsed
            self._size += _size_of(key)
        while self._size > _MAX_CACHED_CHARACTERS:
            oldest = next(iter(self._parsed))
            del self._parsed[oldest]
            self._size -= _size_of(oldest)


FindVersion = Callable[[str, int], Version | None]
"""Returns a version of a subject, softly deleted ones included, or None."""


def resolve_references(parent: str, references: Iterable[Reference], find: FindVersion) -> dict[str, str]:
    """Return the texts of references by name, those of references of references first.

    Args:
        parent: The subject whose context holds for references without one.
        references: The references.
        find: Returns a version that is referred to.

    Raises:
        InvalidSchemaError: a reference does not exist.
    """
    texts: dict[str, str] = {}
    entered: set[tuple[str, int]] = set()
    todo = [(parent, reference, False) for reference in reversed(list(references))]
    while todo:
        parent, reference, is_entered = todo.pop()
        subject = subjects.qualify(reference.subject, parent)
        version = find(subject, reference.version)
        if version is None:
            raise InvalidSchemaError(
                f'No schema reference found for subject "{subject}" and version {reference.version}'
            )
        if is_entered:
            texts.setdefault(reference.name, version.content.text)
        elif (subject, version.version) not in entered:
            entered.add((subject, version.version))
            todo.append((parent, reference, True))
            todo += [(subject, further, False) for further in reversed(version.content.references)]
        elif reference.name not in texts:  # The same schema has another name here.
            texts[reference.name] = version.content.text
    return texts


def _size_of(key: _Key) -> int:
    return len(key[1]) + sum(len(text) for _, text in key[2])


def invalid_schema(kind: str, text: str, references: tuple[Reference, ...], error: InvalidSchemaError) -> Exception:
    """Return the HTTP error for an invalid schema."""
    quoted = text if len(text) <= _MAX_QUOTED_CHARACTERS else f"{text[:_MAX_QUOTED_CHARACTERS]}..."
    names = ", ".join(reference.name for reference in references)
    return RegistryError(
        INVALID_SCHEMA, f"Invalid schema {quoted} with refs [{names}] of type {kind}, details: {error}"
    )
