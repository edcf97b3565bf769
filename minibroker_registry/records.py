"""The records of the topic `_schemas`: keys and values as Confluent's registry writes them.

Keys must have the same bytes as Confluent's, since compaction compares bytes.
"""

import hashlib
import json
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple, cast

from minibroker_registry import subjects
from minibroker_registry.schema import Reference

CONFLUENT_VERSION: Final = "confluent:version"
"""The property of metadata that has the number of a version, if the client has given it."""
Metadata = Mapping[str, Any]
"""`properties`, `tags` and `sensitive`, each sorted."""
RuleSet = Mapping[str, Any]
"""`migrationRules`, `domainRules`, `encodingRules` and `enableAt`. Clients apply the rules; the registry keeps them."""
RULE_MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
"""The modes of the rules in each part of a rule set."""
Config = Mapping[str, Any]
"""The configuration of a subject, under the names of its record. The level is `compatibilityLevel`."""


class Record(NamedTuple):
    """A record of the topic. `timestamp` is in milliseconds, and 0 in a record that has not been written yet."""

    key: bytes
    value: bytes | None
    timestamp: int = 0


@dataclass(frozen=True)
class Content:
    """What decides whether two schemas are the same.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: The text. It is canonical once the schema has been parsed.
        references: The references, whose subjects are named as the client has named them.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    @cached_property
    def guid(self) -> str:
        """The MD5 of all fields but the kind, as a UUID."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(f"{reference.name}{reference.subject}".encode() + struct.pack(">i", reference.version))
        if self.metadata is not None:
            digest.update(f"\1{_join(self.metadata.values())}".encode())
        if self.rule_set is not None:
            parts = self.rule_set.values()
            rules = (part if isinstance(part, str) else [rule.values() for rule in part] for part in parts)
            digest.update(f"\1{_join(rules)}".encode())
        return str(uuid.UUID(bytes=digest.digest()))


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject. `timestamp` is that of its record, in milliseconds."""

    subject: str
    version: int
    id: int
    content: Content
    is_deleted: bool = False
    timestamp: int = 0

    def references(self) -> list[tuple[str, int]]:
        """Return the qualified subjects and the versions that the schema refers to."""
        return [(subjects.qualify(each.subject, self.subject), each.version) for each in self.content.references]


def _join(part: object) -> str:
    """Return all texts of a part of metadata or a rule set, and a byte for true, as they are hashed."""
    if isinstance(part, str | bool):
        return part if isinstance(part, str) else "\1" * part
    if isinstance(part, dict):
        part = chain.from_iterable(cast("dict[str, object]", part).items())
    return "".join(map(_join, cast("Iterable[object]", part)))


def sort_metadata(metadata: Mapping[str, Any]) -> Metadata:
    """Return metadata in the order in which it is stored and hashed.

    Raises:
        TypeError, AttributeError: it is not metadata.
    """
    tags: Mapping[str, Iterable[object]] = metadata.get("tags") or {}
    parts: dict[str, Any] = {
        "tags": {name: _sort_texts(tags[name]) for name in sorted(tags)},
        "properties": _sort_map(metadata.get("properties") or {}),
        "sensitive": _sort_texts(metadata.get("sensitive") or ()),
    }
    return {name: part for name, part in parts.items() if part}


def _sort_texts(texts: Iterable[object]) -> list[str]:
    return sorted(set(map(check_text, texts)))


def _sort_map(texts: Mapping[str, object]) -> dict[str, str]:
    return {name: check_text(texts[name]) for name in sorted(texts)}


def merge_metadata(metadata: Metadata | None, other: Metadata | None) -> Metadata | None:
    """Return metadata that has the properties of both. Those of `other` take precedence."""
    if metadata is None or other is None:
        return other if metadata is None else metadata
    merged: dict[str, Any] = {
        part: {**metadata.get(part, {}), **other.get(part, {})} for part in ("tags", "properties")
    }
    return sort_metadata({**merged, "sensitive": [*metadata.get("sensitive", ()), *other.get("sensitive", ())]})


def read_rule_set(value: Mapping[str, Any]) -> RuleSet:
    """Return a rule set with its fields in the order in which they are stored and hashed.

    Raises:
        TypeError, AttributeError: it is not a rule set.
    """
    parts: dict[str, Any] = {phase: [_read_rule(rule) for rule in value.get(phase) or ()] for phase in RULE_MODES}
    parts["enableAt"] = value.get("enableAt") and check_text(value["enableAt"])
    return {name: part for name, part in parts.items() if part}


def _read_rule(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rule in the order in which it is stored and hashed."""
    fields: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("name", "doc", "kind", "mode", "type"), check_text),
        "tags": _sort_texts,
        "params": _sort_map,
        **dict.fromkeys(("expr", "onSuccess", "onFailure"), check_text),
        "disabled": bool,
    }
    given = {name: part for name, part in rule.items() if part}
    given = {"kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False, **given}
    return {name: read(given[name]) for name, read in fields.items() if name in given}


def rule_types(rule_set: RuleSet | None) -> set[str]:
    """Return the types of all rules."""
    return {rule.get("type", "") for phase in RULE_MODES for rule in (rule_set or {}).get(phase, ())}


def merge_rule_sets(rule_set: RuleSet | None, other: RuleSet | None) -> RuleSet | None:
    """Return a rule set that has the rules of both. Those of `other` take precedence."""
    if rule_set is None or other is None:
        return other if rule_set is None else rule_set
    merged: dict[str, Any] = {**rule_set, **other}
    for phase in RULE_MODES:
        names = [rule["name"] for rule in other.get(phase, ())]
        merged[phase] = [
            *(rule for rule in rule_set.get(phase, ()) if rule["name"] not in names),
            *other.get(phase, ()),
        ]
    return read_rule_set(merged)


def is_equivalent(content: Content, version: Version) -> bool:
    """Return whether a version has a content but for the order of Avro's properties and one `confluent:version`."""
    other = version.content
    if (content.kind, content.references, content.rule_set) != (other.kind, other.references, other.rule_set):
        return False
    number, wanted = _split_version(content.metadata)
    other_number, metadata = _split_version(other.metadata)
    if number == other_number:
        is_alike = content.metadata == other.metadata
    else:
        is_alike = wanted == metadata and (number is None or (other_number is None and number == str(version.version)))
    if not is_alike or content.text == other.text:
        return is_alike
    is_reordered = content.kind == "AVRO" and len(content.text) == len(other.text)
    return is_reordered and bool(json.loads(content.text) == json.loads(other.text))


def _split_version(metadata: Metadata | None) -> tuple[str | None, Metadata]:
    """Return the property `confluent:version`, and the metadata without it."""
    properties = {**(metadata or {}).get("properties", {})}
    number = properties.pop(CONFLUENT_VERSION, None)
    return number, sort_metadata({**(metadata or {}), "properties": properties})


def check_text(value: object) -> str:
    """Return a text of a JSON document. As in Confluent's registry, numbers and booleans are taken as their texts.

    Raises:
        TypeError: it is not a text.
    """
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def schema_record(version: Version) -> Record:
    """Return the record of a version."""
    value = {**version_fields(version), **content_fields(version.content), "deleted": version.is_deleted}
    return Record(_schema_key(version), _encode(value))


def version_fields(version: Version) -> dict[str, Any]:
    """Return what identifies a version, its subject, number and id, as JSON."""
    return {"subject": version.subject, "version": version.version, "id": version.id}


def content_fields(content: Content) -> dict[str, Any]:
    """Return a content as JSON. Clients take a schema without a type for Avro's."""
    fields = {
        "schemaType": None if content.kind == "AVRO" else content.kind,
        "references": [asdict(reference) for reference in content.references] or None,
        "metadata": content.metadata,
        "ruleSet": content.rule_set,
        "schema": content.text,
    }
    return {name: field for name, field in fields.items() if field is not None}


def schema_tombstone(version: Version) -> Record:
    """Return the record that deletes a version permanently."""
    return Record(_schema_key(version), None)


def _schema_key(version: Version) -> bytes:
    return _encode({"keytype": "SCHEMA", "subject": version.subject, "version": version.version, "magic": 1})


def subject_record(kind: str, subject: str, value: Mapping[str, Any] | None) -> Record:
    """Return a record of the kind CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT.

    Args:
        kind: The `keytype`.
        subject: The subject, or an empty string for the whole registry.
        value: The fields besides the subject, or None for a tombstone.
    """
    name = {"subject": subject} if subject else {}
    return Record(_encode({"keytype": kind, **name, "magic": 0}), None if value is None else _encode({**name, **value}))


def context_record(context: str, *, is_deleted: bool = False) -> Record:
    """Return the record of a context, or the one that deletes it."""
    fields = {"tenant": "default", "context": context}
    return Record(_encode({"keytype": "CONTEXT", **fields, "magic": 0}), None if is_deleted else _encode(fields))


def read_references(items: Iterable[Mapping[str, Any]]) -> tuple[Reference, ...]:
    """Return references from JSON.

    Raises:
        TypeError, ValueError, AttributeError: a reference is not valid.
    """
    return tuple(
        Reference(
            check_text(item.get("name") or ""),
            check_text(item.get("subject") or ""),
            check_integer(item.get("version") or 0),
        )
        for item in items
    )


def read_version(value: Mapping[str, Any], timestamp: int) -> Version:
    """Return the version in the value of a SCHEMA record.

    Raises:
        TypeError, KeyError, AttributeError: the value is not that of such a record.
    """
    subject = subjects.normalize(check_text(value["subject"]))
    version, id_ = check_integer(value["version"]), check_integer(value["id"])
    return Version(subject, version, id_, read_content(value), value.get("deleted") is True, timestamp)


def read_content(value: Mapping[str, Any]) -> Content:
    """Return the content in the value of a SCHEMA record, or in the body of a request.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: the value has other types.
    """
    kind, metadata, rule_set = (value.get(name) for name in ("schemaType", "metadata", "ruleSet"))
    return Content(
        "AVRO" if kind is None else check_text(kind),
        check_text(value["schema"]),
        read_references(value.get("references") or ()),
        None if metadata is None else sort_metadata(metadata),
        None if rule_set is None else read_rule_set(rule_set),
    )


def deleted(version: Version) -> Version:
    """Return a version as softly deleted."""
    return replace(version, is_deleted=True)


def check_integer(value: object) -> int:
    """Return a whole number of 32 bits of a JSON document. As in Confluent's registry, it may also be a text.

    Raises:
        TypeError, ValueError: it is not a whole number, or too large.
    """
    number = int(value) if isinstance(value, str) or (isinstance(value, float) and value.is_integer()) else value
    if not isinstance(number, int) or isinstance(number, bool) or not -(2**31) <= number < 2**31:
        raise TypeError(f"{value!r} is not a whole number of 32 bits")
    return number


def _encode(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
