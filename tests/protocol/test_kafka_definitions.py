"""Our declarations against Kafka's own message definitions, field by field.

Kafka's jars carry them as JSON: that of the clients has the messages and the consumer protocol, those of the
coordinators have the records of their topics. Kafka 3.9 is the last one that has every old version.
"""

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from minibroker_protocol import primitives as p
from minibroker_protocol.schema import Field, VersionRange, fields_of, schema_of
from tests.protocol.message_strategies import all_classes, all_messages

Definition = Callable[[str], dict[str, Any]]

_TYPES: Final = {"bool": "BOOLEAN"} | {
    name: name.upper()
    for name in ("int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes", "records")
}
_NOT_SAID: Final = object()


class Wire(NamedTuple):
    """What one version of a message has at one place: a path of names and what both sides say of it."""

    path: str
    type: str
    nullable: bool
    tag: int | None


@pytest.fixture(scope="session")
def definition(kafka_libs: Path) -> Definition:
    """A function that returns Kafka's definition of a message."""
    texts: dict[str, str] = {}
    for module in ("clients", "group-coordinator", "transaction-coordinator"):
        (path,) = kafka_libs.glob(f"kafka-{module}-[0-9]*.jar")
        with zipfile.ZipFile(path) as jar:
            texts |= {name: jar.read(name).decode() for name in jar.namelist() if name.startswith("common/message/")}

    def of(name: str) -> dict[str, Any]:
        text = texts[f"common/message/{name}.json"]
        found: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        return found

    return of


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kafkas_range(text: str | None) -> VersionRange:
    return VersionRange(1, 0) if text in {None, "none"} else VersionRange.parse(text or "")


def kafkas(fields: list[dict[str, Any]], version: int, common: dict[str, Any], path: str = "") -> Iterator[Wire]:
    """Everything that Kafka's definition has in a version, in wire order."""
    for field in fields:
        if version not in kafkas_range(field["versions"]):
            continue
        here = f"{path}/{snake(field['name'])}"
        kind = field["type"].removeprefix("[]")
        brackets = "[]" if field["type"].startswith("[]") else ""
        tag = field["tag"] if version in kafkas_range(field.get("taggedVersions")) else None
        null = version in kafkas_range(field.get("nullableVersions"))
        yield Wire(here, brackets + _TYPES.get(kind, "struct"), null, tag)
        if kind not in _TYPES:
            yield from kafkas(field.get("fields") or common[kind], version, common, here)


def ours(cls: type[Any], version: int, *, flexible: bool, path: str = "") -> Iterator[Wire]:
    """Everything that our declaration has in a version, in wire order."""
    for field in fields_of(cls):
        tag = field.tag if flexible and version in field.tagged_in else None
        if version not in field.present:
            continue
        here = f"{path}/{field.name}"
        kind = field.kind.name if isinstance(field.kind, p.WireType) else "struct"
        yield Wire(here, ("[]" if field.is_array else "") + kind, version in field.nullable, tag)
        if not isinstance(field.kind, p.WireType):
            yield from ours(field.kind, version, flexible=flexible, path=here)


def common_structures(definition: dict[str, Any]) -> dict[str, Any]:
    """The fields of the structures that a definition uses in more than one place, by name."""
    return {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}


def all_fields(
    cls: type[Any], definition_fields: list[dict[str, Any]], common: dict[str, Any]
) -> Iterator[tuple[Field, dict[str, Any]]]:
    """Our fields with Kafka's, structures before their content."""
    by_name = {snake(field["name"]): field for field in definition_fields}
    for field in fields_of(cls):
        theirs = by_name[field.name]
        yield field, theirs
        if not isinstance(field.kind, p.WireType):
            content = theirs.get("fields") or common[theirs["type"].removeprefix("[]")]
            yield from all_fields(field.kind, content, common)


def kafkas_default(field: dict[str, Any]) -> object:
    """The default that Kafka's definition gives, or what a field of its type has without one."""
    text = field.get("default")
    if text == "null" or ("default" in field and text is None):
        return None
    match field["type"]:
        case "bool":
            return text in {True, "true"}
        case "string":
            return text or ""
        case "int8" | "int16" | "int32" | "int64":
            return int(str(text), 0) if text is not None else 0
    return [] if field["type"].startswith("[]") else _NOT_SAID


MESSAGES: Final = all_messages()
CLASSES: Final = all_classes()
STORED: Final = [cls for cls in CLASSES if cls.__module__.startswith("minibroker_protocol.coordinator_records.")]


@pytest.mark.parametrize(("cls", "version"), MESSAGES, ids=lambda value: getattr(value, "__name__", value))
def test_every_version_has_kafkas_fields_in_kafkas_order(cls: type[Any], version: int, definition: Definition) -> None:
    theirs = definition(cls.__name__)
    common = common_structures(theirs)
    flexible = version in kafkas_range(theirs["flexibleVersions"])
    assert version in kafkas_range(theirs["validVersions"])
    assert (version in schema_of(cls).flexible) is flexible
    assert list(ours(cls, version, flexible=flexible)) == list(kafkas(theirs["fields"], version, common))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_declarations_begin_where_kafkas_begin(cls: type[Any], definition: Definition) -> None:
    assert schema_of(cls).versions.first == kafkas_range(definition(cls.__name__)["validVersions"]).first


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_field_that_may_be_missing_has_kafkas_default(cls: type[Any], definition: Definition) -> None:
    versions = schema_of(cls).versions
    kafkas_message = definition(cls.__name__)
    for field, theirs in all_fields(cls, kafkas_message["fields"], common_structures(kafkas_message)):
        wanted = kafkas_default(theirs)
        sometimes_missing = any(
            version not in field.present or version in field.tagged_in
            for version in range(versions.first, versions.last + 1)
        )
        if sometimes_missing and wanted is not _NOT_SAID:
            # Where null is allowed, ours may say null for what Kafka calls empty: nothing is there either way.
            accepted = [wanted, None] if not wanted and field.nullable.first <= versions.last else [wanted]
            assert field.default() in accepted, field.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_default_that_kafka_gives_is_ours_too_unless_we_must_be_told(cls: type[Any], definition: Definition) -> None:
    kafkas_message = definition(cls.__name__)
    for field, theirs in all_fields(cls, kafkas_message["fields"], common_structures(kafkas_message)):
        if "default" in theirs and not field.required:
            assert field.default() == kafkas_default(theirs), field.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_nested_structures_have_kafkas_names(cls: type[Any], definition: Definition) -> None:
    kafkas_message = definition(cls.__name__)
    for field, theirs in all_fields(cls, kafkas_message["fields"], common_structures(kafkas_message)):
        if isinstance(field.kind, type):
            assert field.kind.__name__ == theirs["type"].removeprefix("[]")


@pytest.mark.parametrize("cls", STORED, ids=lambda cls: cls.__name__)
def test_records_that_are_stored_are_known_in_every_version(cls: type[Any], definition: Definition) -> None:
    assert schema_of(cls).versions == kafkas_range(definition(cls.__name__)["validVersions"])
