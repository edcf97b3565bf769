"""The records of the topic `_schemas`: keys and values as Confluent's registry writes them.

Keys must have the same bytes as Confluent's, since compaction compares bytes.
"""

import hashlib
import json
import struct
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from minibroker_registry import subjects
from minibroker_registry.schema import Reference

TOPIC: Final = "_schemas"
Metadata = Mapping[str, Any]
"""`properties`, `tags` and `sensitive`, each sorted."""
Config = Mapping[str, Any]
"""The configuration of a subject, under the names of its record. The level is `compatibilityLevel`."""


class Record(NamedTuple):
    """A record of the topic. `timestamp` is in milliseconds, and 0 in a record that has not been written yet."""

    key: bytes
    value: bytes | None
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """What decides whether two schemas are the same.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: The canonical text.
        references: The references, whose subjects are named as the client has named them.
        guid: The MD5 of text, references and metadata, as a UUID.
    """

    kind: str
    text: str
    references: tuple[Reference, ...]
    metadata: Metadata | None
    guid: str


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject. `timestamp` is that of its record, in milliseconds."""

    subject: str
    version: int
    id: int
    content: Content
    is_deleted: bool = False
    timestamp: int = 0

    def references(self) -> Iterable[tuple[str, int]]:
        """Return the qualified subjects and the versions that the schema refers to."""
        for reference in self.content.references:
            yield subjects.qualify(reference.subject, self.subject), reference.version


def make_content(kind: str, text: str, references: tuple[Reference, ...], metadata: Metadata | None) -> Content:
    """Return a content with its guid."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(f"{reference.name}{reference.subject}".encode() + struct.pack(">i", reference.version))
    if metadata is not None:
        parts = ["\1"]
        for name, values in metadata.get("tags", {}).items():
            parts += [name, *values]
        for name, value in metadata.get("properties", {}).items():
            parts += [name, value]
        digest.update("".join([*parts, *metadata.get("sensitive", ())]).encode())
    return Content(kind, text, references, metadata, str(uuid.UUID(bytes=digest.digest())))


def sort_metadata(metadata: Mapping[str, Any]) -> Metadata | None:
    """Return metadata in the order in which it is stored and hashed, or None if it is empty.

    Raises:
        TypeError, AttributeError: it is not metadata.
    """
    tags: Mapping[str, Iterable[object]] = metadata.get("tags") or {}
    properties: Mapping[str, object] = metadata.get("properties") or {}
    sensitive: Iterable[object] = metadata.get("sensitive") or ()
    parts: dict[str, Any] = {
        "tags": {name: sorted(set(map(check_text, tags[name]))) for name in sorted(tags)},
        "properties": {name: check_text(properties[name]) for name in sorted(properties)},
        "sensitive": sorted(set(map(check_text, sensitive))),
    }
    return {name: part for name, part in parts.items() if part} or None


def merge_metadata(metadata: Metadata | None, other: Metadata | None) -> Metadata | None:
    """Return metadata that has the properties of both. Those of `other` take precedence."""
    if metadata is None or other is None:
        return metadata or other
    merged: dict[str, Any] = {
        part: {**metadata.get(part, {}), **other.get(part, {})} for part in ("tags", "properties")
    }
    return sort_metadata({**merged, "sensitive": [*metadata.get("sensitive", ()), *other.get("sensitive", ())]})


def check_text(value: object) -> str:
    """Return a text of a JSON document.

    Raises:
        TypeError: it is not a text.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def schema_record(version: Version) -> Record:
    """Return the record of a version."""
    content = version.content
    value: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    if content.kind != "AVRO":
        value["schemaType"] = content.kind
    if content.references:
        value["references"] = [reference_fields(reference) for reference in content.references]
    if content.metadata is not None:
        value["metadata"] = content.metadata
    value |= {"schema": content.text, "deleted": version.is_deleted}
    return Record(_schema_key(version), _encode(value))


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


def context_record(context: str) -> Record:
    """Return the record of a context."""
    fields = {"tenant": "default", "context": context}
    return Record(_encode({"keytype": "CONTEXT", **fields, "magic": 0}), _encode(fields))


def reference_fields(reference: Reference) -> dict[str, Any]:
    """Return a reference as JSON."""
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def read_references(items: Iterable[Mapping[str, Any]]) -> tuple[Reference, ...]:
    """Return references from JSON.

    Raises:
        TypeError, KeyError, AttributeError: a reference is not valid.
    """
    return tuple(
        Reference(check_text(item["name"]), check_text(item["subject"]), check_integer(item["version"]))
        for item in items
    )


def read_version(value: Mapping[str, Any], timestamp: int) -> Version:
    """Return the version in the value of a SCHEMA record.

    Raises:
        TypeError, KeyError, AttributeError: the value is not that of such a record.
    """
    metadata = value.get("metadata")
    content = make_content(
        check_text(value.get("schemaType") or "AVRO"),
        check_text(value["schema"]),
        read_references(value.get("references") or ()),
        None if metadata is None else sort_metadata(metadata),
    )
    subject, version, id_ = (
        subjects.normalize(check_text(value["subject"])),
        check_integer(value["version"]),
        value["id"],
    )
    return Version(subject, version, check_integer(id_), content, value.get("deleted") is True, timestamp)


def deleted(version: Version) -> Version:
    """Return a version as softly deleted."""
    return replace(version, is_deleted=True)


def check_integer(value: object) -> int:
    """Return a whole number of a JSON document.

    Raises:
        TypeError: it is not a whole number.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _encode(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
