"""Our declarations compared with Kafka's own message definitions, field by field.

Kafka's jars contain them as JSON: the clients jar has the messages and the consumer protocol, and the coordinators'
jars have the records of their topics. Kafka 3.9 is the last release with every old version, and the clients of Kafka
4.4 have the newest ones. The records of consumer, share and streams groups are those of Kafka 4.4. Definitions in both
releases are compared with both.
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
from tests.clients.java_programs import client_libs
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.protocol.message_strategies import all_classes, versions_of

Definitions = Callable[[str], list[dict[str, Any]]]

_TYPES: Final = {"bool": "BOOLEAN"} | {
    name: name.upper()
    for name in ("int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes", "records")
}
_NOT_SAID: Final = object()
_RENAMED: Final = {("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch"}
_OWN_NAMES: Final = {
    "AcknowledgedPartition": "PartitionData",
    "AlterEntryData": "EntryData",
    "AlteredEntryData": "EntryData",
    "AlteredPartition": "PartitionData",
    "AlteredTopic": "TopicData",
    "DeletedPartition": "PartitionData",
    "DescribedAssignment": "Assignment",
    "DescribedTopicPartitions": "TopicPartitions",
    "IncrementallyAlteredConfig": "AlterableConfig",
    "IncrementallyAlteredResource": "AlterConfigsResource",
    "InitializedPartition": "PartitionData",
    "ListedTransaction": "TransactionState",
    "PartitionState": "PartitionData",
    "ReadPartition": "PartitionData",
    "ReadPartitionResult": "PartitionResult",
    "SummarizedPartitionResult": "PartitionResult",
    "TargetTaskIds": "TaskIds",
    "TopicState": "TopicData",
    "VoterListener": "Listener",
    "WrittenPartition": "PartitionData",
}
"""Names that differ from Kafka's: structures of one module cannot share a name, and some names are more specific."""
_NEWEST: Final = "4.4.0"
_RECORDS_SINCE_KAFKA_4: Final = {
    "TransactionLogValue": [
        {"name": name, "type": kind, "versions": "1+", "taggedVersions": "1+", "tag": tag, "default": default}
        for name, kind, tag, default in (
            ("PreviousProducerId", "int64", 0, "-1"),
            ("NextProducerId", "int64", 1, "-1"),
            ("ClientTransactionVersion", "int16", 2, "0"),
        )
    ]
}
"""Tagged fields in the coordinators' records since Kafka 4.0; see Kafka's `TransactionLogValue.json`."""


class Wire(NamedTuple):
    """A field in one version of a message: its path, and its properties to compare."""

    path: str
    type: str
    nullable: bool
    tag: int | None


@pytest.fixture(scope="session")
def definitions(kafka_libs: Path) -> Definitions:
    """Return a function that returns Kafka's definitions of a message, at least one, with the older one first."""
    modules = ("clients", "group-coordinator", "transaction-coordinator")
    older = _definitions_in(*(path for module in modules for path in kafka_libs.glob(f"kafka-{module}-[0-9]*.jar")))
    newer = _definitions_in(or_skip(lambda: client_libs(_NEWEST)) / f"kafka-clients-{_NEWEST}.jar")
    # Kafka 3.9 has drafts of the share group messages, some with other fields. No release served these versions.
    older = {name: each for name, each in older.items() if "Share" not in name}
    kafka_4 = or_skip(lambda: jars.find(version=jars.NEWEST))
    newer |= _newer_records_in(
        *(path for module in ("group", "share") for path in kafka_4.glob(f"kafka-{module}-coordinator-[0-9]*.jar"))
    )
    older = {name: each for name, each in older.items() if not _is_record_of_a_group(name)}
    for name, fields in _RECORDS_SINCE_KAFKA_4.items():
        older[name]["fields"] += fields
    for (name, before), after in _RENAMED.items():
        (field,) = (each for each in older[name]["fields"] if each["name"] == before)
        field["name"] = after

    def of(name: str) -> list[dict[str, Any]]:
        found = [each[name] for each in (older, newer) if name in each and each[name]["validVersions"] != "none"]
        assert found, name
        return found

    return of


def _newer_records_in(*jars_with_records: Path) -> dict[str, dict[str, Any]]:
    """Return the records of modern groups by name. Since Kafka 4, the API key of a record's key is its version."""
    found = {name: each for name, each in _definitions_in(*jars_with_records).items() if _is_record_of_a_group(name)}
    for each in found.values():
        for structure in (each, *each.get("commonStructs", ())):
            for field in structure["fields"]:
                field.setdefault("versions", field.get("taggedVersions"))  # like Kafka's `FieldSpec`
        if each["type"] == "coordinator-key":
            each["validVersions"] = str(each["apiKey"])
            for one in each["fields"]:
                one["versions"] = each["validVersions"]
    return found


def _is_record_of_a_group(name: str) -> bool:
    return name.startswith(("ConsumerGroup", "Share", "Streams")) and name.endswith(("Key", "Value"))


def _definitions_in(*jars: Path) -> dict[str, dict[str, Any]]:
    """Return the definitions in some jars by message name."""
    found: dict[str, dict[str, Any]] = {}
    for path in jars:
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE)
                    found[Path(name).stem] = json.loads(text)
    return found


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kafkas_range(text: str | None) -> VersionRange:
    return VersionRange(1, 0) if text in {None, "none"} else VersionRange.parse(text or "")


def kafkas(fields: list[dict[str, Any]], version: int, common: dict[str, Any], path: str = "") -> Iterator[Wire]:
    """Yield everything in a version of Kafka's definition, in wire order."""
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
    """Yield everything in a version of our declaration, in wire order."""
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
    """Return the fields of the structures that a definition uses in more than one place, by name."""
    return {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}


def all_fields(cls: type[Any], theirs: list[dict[str, Any]]) -> Iterator[tuple[Field, dict[str, Any]]]:
    """Yield our fields with Kafka's, once per definition that has them, and structures before their contents."""
    known: set[tuple[type[Any], str]] = set()
    expected: set[tuple[type[Any], str]] = set()
    for each in theirs:
        for owner, field, kafkas_field in _pairs(cls, each["fields"], common_structures(each), expected):
            known.add((owner, field.name))
            yield field, kafkas_field
    assert known == expected, "fields that no definition has"


def _pairs(
    cls: type[Any], fields: list[dict[str, Any]], common: dict[str, Any], expected: set[tuple[type[Any], str]]
) -> Iterator[tuple[type[Any], Field, dict[str, Any]]]:
    by_name = {snake(field["name"]): field for field in fields}
    for field in fields_of(cls):
        expected.add((cls, field.name))
        theirs = by_name.get(field.name)
        if theirs is None:
            continue
        yield cls, field, theirs
        if not isinstance(field.kind, p.WireType):
            content = theirs.get("fields") or common[theirs["type"].removeprefix("[]")]
            yield from _pairs(field.kind, content, common, expected)


def kafkas_default(field: dict[str, Any]) -> object:
    """Return the default in Kafka's definition, or the default of the field's type."""
    text = field.get("default")
    if "default" in field and text is None and "fields" in field:
        return _NOT_SAID  # Kafka's word for null is "null"; JSON's null is an empty structure.
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


CLASSES: Final = all_classes()
STORED: Final = [cls for cls in CLASSES if cls.__module__.startswith("minibroker_protocol.coordinator_records.")]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_version_has_kafkas_fields_in_kafkas_order(cls: type[Any], definitions: Definitions) -> None:
    for version in versions_of(cls):
        known = [each for each in definitions(cls.__name__) if version in kafkas_range(each["validVersions"])]
        assert known, f"no Kafka has version {version}"
        for theirs in known:
            flexible = version in kafkas_range(theirs["flexibleVersions"])
            assert (version in schema_of(cls).flexible) is flexible, f"version {version}"
            expected = list(kafkas(theirs["fields"], version, common_structures(theirs)))
            assert list(ours(cls, version, flexible=flexible)) == expected, f"version {version}"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_declarations_begin_where_kafkas_begin(cls: type[Any], definitions: Definitions) -> None:
    assert schema_of(cls).versions.first == min(
        kafkas_range(each["validVersions"]).first for each in definitions(cls.__name__)
    )


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_declarations_end_with_the_newest_version(cls: type[Any], definitions: Definitions) -> None:
    newest = definitions(cls.__name__)[-1]
    assert schema_of(cls).versions.last == kafkas_range(newest["validVersions"]).last


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_field_that_may_be_missing_has_kafkas_default(cls: type[Any], definitions: Definitions) -> None:
    versions = schema_of(cls).versions
    for field, theirs in all_fields(cls, definitions(cls.__name__)):
        expected = kafkas_default(theirs)
        sometimes_missing = any(
            version not in field.present or version in field.tagged_in
            for version in range(versions.first, versions.last + 1)
        )
        if sometimes_missing and expected is not _NOT_SAID:
            # If null is allowed, our default can be null where Kafka's is empty, because both mean that nothing is
            # there.
            accepted = [expected, None] if not expected and field.nullable.first <= versions.last else [expected]
            assert field.default() in accepted, field.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_default_that_kafka_gives_is_ours_too_unless_we_must_be_told(
    cls: type[Any], definitions: Definitions
) -> None:
    for field, theirs in all_fields(cls, definitions(cls.__name__)):
        expected = kafkas_default(theirs)
        if "default" in theirs and not field.required and expected is not _NOT_SAID:
            assert field.default() == expected, field.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_nested_structures_have_kafkas_names(cls: type[Any], definitions: Definitions) -> None:
    # Kafka 4 renamed some of them, which is not visible on the wire.
    names: dict[Any, set[str]] = {}
    for field, theirs in all_fields(cls, definitions(cls.__name__)):
        if isinstance(field.kind, type):
            names.setdefault(field.kind, set()).add(theirs["type"].removeprefix("[]"))
    for structure, known in names.items():
        assert _OWN_NAMES.get(structure.__name__, structure.__name__) in known


@pytest.mark.parametrize("cls", STORED, ids=lambda cls: cls.__name__)
def test_records_that_are_stored_are_known_in_every_version(cls: type[Any], definitions: Definitions) -> None:
    assert schema_of(cls).versions == kafkas_range(definitions(cls.__name__)[-1]["validVersions"])
