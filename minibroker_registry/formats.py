"""The schema formats, and the compatibility of schemas in the levels of Confluent's registry.

The modules of formats are loaded with the first schema of the format, since they need large packages.
"""

import importlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from minibroker_registry import subjects
from minibroker_registry.records import Config, Content, Metadata, Version
from minibroker_registry.schema import InvalidSchemaError, Parsed, Reference

_MODULES: Final = {"JSON": "json_schema", "PROTOBUF": "protobuf", "AVRO": "avro"}
KINDS: Final = tuple(_MODULES)
"""The formats in the order in which Confluent lists them."""
_MAX_CACHED_CHARACTERS: Final = 1 << 19
"""A parsed schema takes up to 30 times the memory of its text. A full garbage collection visits all of its objects."""
_MIN_CACHED: Final = 8
"""How many results are kept whatever their size, such as those of a large value and its key. A schema has up to two."""
FindVersion = Callable[[str, int], Version | None]
"""Returns a version of a subject, or None."""
_Key = tuple[str, str, tuple[tuple[str, str], ...], bool]


class Formats:
    """Parses schemas, one at a time, and keeps the newest results. The sum of the kept texts is limited, but for a few.

    Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parsed: dict[_Key, Parsed] = {}
        self._size = 0

    def parse(self, content: Content, subject: str, find: FindVersion, *, is_new: bool = False) -> Parsed:
        """Parse a schema, or return the result of an earlier call.

        Args:
            content: The schema.
            subject: The subject, whose context holds for references without one.
            find: Returns a version that is referred to.
            is_new: Whether the schema is to be registered. A schema from the topic is not checked as strictly.

        Raises:
            InvalidSchemaError: the schema is not valid, or a reference does not exist.
        """
        kind, text, references = content.kind, content.text, _resolve_references(subject, content.references, find)
        module = _MODULES.get(kind)
        if module is None:
            raise InvalidSchemaError(f"Invalid schema type {kind}")
        if not text.strip():
            raise InvalidSchemaError("Empty schema")
        key = (kind, text, tuple(references.items()), is_new)
        with self._lock:
            parsed = self._parsed.get(key)
            if parsed is None:
                parse = importlib.import_module(f"{__package__}.{module}").parse
                try:
                    parsed = parse(text, references, is_new=is_new)
                except RecursionError:
                    raise InvalidSchemaError("The schema or its references are nested too deeply") from None
                assert isinstance(parsed, Parsed)
                self._keep(key, parsed)
                self._keep((kind, parsed.canonical, key[2], False), parsed)
        return parsed

    def _keep(self, key: _Key, parsed: Parsed) -> None:
        if key not in self._parsed:
            self._parsed[key] = parsed
            self._size += _size_of(key)
        while self._size > _MAX_CACHED_CHARACTERS and len(self._parsed) > _MIN_CACHED:
            oldest = next(iter(self._parsed))
            del self._parsed[oldest]
            self._size -= _size_of(oldest)


def _resolve_references(parent: str, references: Iterable[Reference], find: FindVersion) -> dict[str, str]:
    """Return the texts of references by name, those of references of references first."""
    texts: dict[str, str] = {}
    entered: set[tuple[str, int]] = set()

    def resolve(parent: str, references: Iterable[Reference]) -> None:
        for reference in references:
            subject = subjects.qualify(reference.subject, parent)
            version = find(subject, reference.version)
            if version is None:
                raise InvalidSchemaError(
                    f'No schema reference found for subject "{subject}" and version {reference.version}'
                )
            if (subject, version.version) not in entered:
                entered.add((subject, version.version))
                resolve(subject, version.content.references)
            texts.setdefault(reference.name, version.content.text)

    try:
        resolve(parent, references)
    except RecursionError:
        raise InvalidSchemaError("The references are nested too deeply") from None
    return texts


def _size_of(key: _Key) -> int:
    return len(key[1]) + sum(len(text) for _, text in key[2])


LEVELS: Final = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
_MAX_OLD_CHARACTERS: Final = 10_240


def compare(
    new: Parsed, content: Content, versions: Sequence[Version], config: Config, parse: Callable[[Version], Parsed]
) -> list[str]:
    """Return why a schema cannot follow the versions of a subject, in Confluent's words, or an empty list.

    Args:
        new: The parsed schema.
        content: The schema.
        versions: The versions of the subject, in their order.
        config: The configuration that applies to the subject.
        parse: Returns the parsed schema of a version.
    """
    level: str = config["compatibilityLevel"]
    reserved = _compare_reserved(new, content, versions) if config.get("validateFields") is True else []
    suffix = f"{{validateFields: '{str(bool(config.get('validateFields'))).lower()}', compatibility: '{level}'}}"
    group = config.get("compatibilityGroup")
    if group is not None:
        wanted = _property(content.metadata, group)
        versions = [version for version in versions if _property(version.content.metadata, group) == wanted]
    lenient = config.get("compatibilityPolicy") == "LENIENT"
    compared = versions if level.endswith("_TRANSITIVE") else versions[-1:] if level != "NONE" else []
    for version in reversed(compared):
        if content.kind == version.content.kind:
            reasons = _compare_both(new, parse(version), level, lenient=lenient)
        else:
            reasons = ["Incompatible because of different schema type"]
        if reasons:
            text = version.content.text[:_MAX_OLD_CHARACTERS]
            old = (f"{{oldSchemaVersion: {version.version}}}", f"{{oldSchema: '{text}'}}")
            return [*reserved, *reasons, *old, suffix]
    return [*reserved, suffix] if reserved else []


def _compare_reserved(new: Parsed, content: Content, versions: Sequence[Version]) -> list[str]:
    """Return why a schema breaks the reservation of field names, which the property `confluent:reserved` lists."""

    def reserved_in(content: Content) -> set[str]:
        return {name.strip() for name in (_property(content.metadata, "confluent:reserved") or "").split(",")} - {""}

    reserved = reserved_in(content)
    used = reserved & new.field_names()
    removed = sorted(reserved_in(versions[-1].content) - reserved) if versions else []
    reasons = [f"The new schema does not reserve the field {name}, which the old schema reserves" for name in removed]
    return reasons + [f"The new schema reserves the field {name} and has it" for name in sorted(used)]


def _compare_both(new: Parsed, old: Parsed, level: str, *, lenient: bool) -> list[str]:
    reasons: list[str] = []
    if not level.startswith("BACKWARD"):
        reasons += _name_roles(old.incompatibilities(new, lenient=lenient), "old", "new")
    if not level.startswith("FORWARD"):
        reasons += _name_roles(new.incompatibilities(old, lenient=lenient), "new", "old")
    return reasons


def _name_roles(messages: Iterable[str], reader: str, writer: str) -> list[str]:
    """Return messages of a format, in which `%s` stands for the reader's schema, and then for the writer's."""
    return [message.replace("%s", reader, 1).replace("%s", writer, 1) for message in messages]


def _property(metadata: Metadata | None, name: str) -> str | None:
    value: str | None = (metadata or {}).get("properties", {}).get(name)
    return value
