"""Goals about values with a schema, for lesson 11."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_lab.page.follow.sightings import record_sets
from minibroker_lab.page.lessons.evidence import join_numbers, last_of, no_records_text, request_link, request_nodes
from minibroker_lab.page.lessons.lesson import Finding, Goal, reached, report_open
from minibroker_protocol.fields.record_places import headers_of
from minibroker_protocol.fields.tree import RECORD
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_registry import values as registry_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker_lab.page.lessons.evidence import Evidence
    from minibroker_registry.schema import Parsed

_SUBJECT: Final = "orders-value"


class _Value(NamedTuple):
    """A value that was produced to `orders`.

    Attributes:
        link: The link to the request.
        version: The version of the subject that the value names, or 0.
        schema: The schema, or None.
        fault: Why the value cannot be decoded, or an empty string.
        has_id: Whether the value begins with the id of a schema.
    """

    link: str
    version: int
    schema: Parsed | None
    fault: str
    has_id: bool


def _values(evidence: Evidence) -> Iterator[_Value]:
    """Yield the values that were produced to `orders` alone."""
    source = evidence.schemas.source
    for reading in evidence.readings("Produce"):
        if {record_set["topic"] for record_set in record_sets(reading.exchange, evidence.topics)} != {"orders"}:
            continue
        link = request_link(reading.exchange)
        for node in request_nodes(reading.exchange):
            data = node.find("value").value if node.type == RECORD else None
            if data is None:
                continue
            if source is None:
                yield _Value(link, 0, None, "there is no topic of schemas", has_id=False)
                continue
            values, data, headers = registry_values.Values(source), bytes(data), headers_of(node)
            has_id = values.has_schema(data, headers)
            try:
                id_, schema, _ = values.find(data, headers)
                values.decode(data, headers)
            except registry_values.UndecodableError as error:
                yield _Value(link, 0, None, str(error), has_id)
                continue
            versions = [version.version for version in source.state.versions(_SUBJECT) if version.id == id_]
            yield _Value(link, (*versions, 0)[0], schema, "", has_id)


def _check_identified(evidence: Evidence) -> Finding:
    newest = last_of(_values(evidence))
    for value in _values(evidence):
        if value.version:
            return reached(f"{value.link} has a value of version {value.version} of `{_SUBJECT}`.")
    if newest is None:
        return report_open(no_records_text("orders"))
    return report_open(f"{newest.link}, the last one: {newest.fault or f'its schema is not one of `{_SUBJECT}`'}.")


def _check_evolved(evidence: Evidence) -> Finding:
    schemas = {value.version: value.schema for value in _values(evidence) if value.version and value.schema}
    for version, schema in schemas.items():
        for newer, reader in schemas.items():
            if newer > version and type(reader) is type(schema) and not reader.incompatibilities(schema):
                return reached(f"`orders` has values of the versions {version} and {newer}, and {newer} reads both.")
    return report_open(f"Versions of the values in `orders`: {join_numbers(schemas) or 'none'}.")


def _check_broken(evidence: Evidence) -> Finding:
    source = evidence.schemas.source
    latest = None if source is None else source.state.version(_SUBJECT, -1)
    if source is None or latest is None:
        return report_open(f"The registry has no schema of `{_SUBJECT}`.")
    reader = source.by_id(latest.id)
    for value in _values(evidence):
        if value.version and value.schema and type(reader) is type(value.schema):
            reasons = reader.incompatibilities(value.schema)
            if reasons:
                refusal = f"Version {latest.version} cannot read the value of version {value.version} in {value.link}"
                return reached(f"{refusal}: {reasons[0]}.")
    return report_open(f"Version {latest.version}, the latest, reads all values that have come.")


def _check_unreadable(evidence: Evidence) -> Finding:
    for value in _values(evidence):
        if value.has_id and value.fault:
            return reached(f"{value.link}: {value.fault}.")
    return report_open("Each value with an id could be decoded.")


SCHEMAS: Final = (
    Goal(
        "identified",
        "Write a value to `orders` that begins with the id of a schema of `orders-value`.",
        "Register the schema with the first command. In the answer is the id, which the bytes of the text have as 1.",
        _check_identified,
    ),
    Goal(
        "evolved",
        "Add a field with a default, and write a value of the new version, too.",
        "Register the second schema. The value has its id, and then both fields.",
        _check_evolved,
    ),
    Goal(
        "broken",
        "Register a version that cannot read the values that you have written.",
        "Set the level to NONE, and register a schema that lacks the default, or in which `id` is a `string`.",
        _check_broken,
    ),
    Goal(
        "unreadable",
        "Write a value that nobody can read: with an unknown id, or with data that does not fit its schema.",
        "`00 00 00 00 63 0e` has the id 99.",
        _check_unreadable,
    ),
)
