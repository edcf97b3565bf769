"""Forms: the fields of an action, made of the OpenAPI document of the control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker_lab.page.actions.table import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from minibroker_lab.page.actions.table import Action

_REF: Final = "#/components/schemas/"
_RECORDS: Final = "records"
_PLACES: Final = {
    "topic": "The name of the topic.",
    "partition": "The number of the partition, from 0.",
    "group_id": "The id of the group.",
    "node_id": "The id of the broker.",
    "name": "The name that it was saved under.",
}
"""The meanings of what stands in a path, of which the document has the names alone."""


class Field(NamedTuple):
    """One field of a form.

    Attributes:
        place: "path", "query" or "body" of the request; "record" for a field of the only record of a body.
        kind: "text", "integer", "number", "name" (a text or an integer), "choice", "switch" or "pairs".
        default: the value of a field that is left empty, as a text; empty for none.
        choices: the values of a choice.
        known: the kind of values that the page offers; empty for none.
    """

    name: str
    place: str
    kind: str
    meaning: str
    is_needed: bool
    default: str
    choices: tuple[str, ...]
    known: str


class Form(NamedTuple):
    """An action with its request.

    Attributes:
        path: with the names of fields in braces.
        has_body: whether the request has a JSON object as its body.
    """

    action: Action
    method: str
    path: str
    meaning: str
    has_body: bool
    fields: tuple[Field, ...]


def forms(document: Mapping[str, Any]) -> dict[str, Form]:
    """The forms of all actions by their names, of an OpenAPI document."""
    operations = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    return {each.name: _form(each, document, *operations[each.name]) for each in ACTIONS}


def _form(action: Action, document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Form:
    body = _body(document, operation)
    fields = (*_parameters(action, operation), *_body_fields(action, document, body))
    meaning = " ".join(operation["description"].split())
    return Form(
        action, method, path, meaning, body is not None, tuple(sorted(fields, key=lambda each: not each.is_needed))
    )


def _parameters(action: Action, operation: Mapping[str, Any]) -> Iterator[Field]:
    for each in operation.get("parameters", ()):
        if each["name"] not in action.hidden and each["in"] in {"path", "query"}:
            meaning = _PLACES[each["name"]] if each["in"] == "path" else each.get("description", "")
            yield _field(action, each["name"], each["in"], each["schema"], meaning, is_needed=each["required"])


def _body(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the body; None without one."""
    if "requestBody" not in operation:
        return None
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return _resolved(document, schema)


def _body_fields(action: Action, document: Mapping[str, Any], body: Mapping[str, Any] | None) -> Iterator[Field]:
    needed = set(() if body is None else body.get("required", ())) | action.needed
    properties: Mapping[str, Any] = {} if body is None else body["properties"]
    for name, schema in properties.items():
        if name == _RECORDS:
            record = _resolved(document, schema["items"])
            for inner, its_schema in record["properties"].items():
                yield _field(action, inner, "record", its_schema, its_schema.get("description", ""), is_needed=False)
        elif name not in action.hidden:
            yield _field(action, name, "body", schema, schema.get("description", ""), is_needed=name in needed)


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind a reference, or behind one that may be null."""
    for each in schema.get("anyOf", (schema,)):
        if "$ref" in each:
            found: Mapping[str, Any] = document["components"]["schemas"][each["$ref"].removeprefix(_REF)]
            return found
    return schema


def _field(action: Action, name: str, place: str, schema: Mapping[str, Any], meaning: str, *, is_needed: bool) -> Field:
    kind = _kind(name, schema)
    default = schema.get("default")
    return Field(
        name,
        place,
        kind,
        action.meanings.get(name, meaning),
        is_needed,
        "" if default is None or isinstance(default, dict | bool) else str(default),
        tuple(map(str, schema.get("enum", ()))),
        action.lists.get(name, ""),
    )


def _kind(name: str, schema: Mapping[str, Any]) -> str:
    if name in {"headers", "configs"}:
        return "pairs"
    if "enum" in schema:
        return "choice"
    types: set[str] = set()
    for each in schema.get("anyOf", (schema,)):
        found = each.get("type", "string")
        types |= {found} if isinstance(found, str) else set(found)
    if types == {"string", "integer"}:
        return "name"
    kinds = {"boolean": "switch", "integer": "integer", "number": "number"}
    return next((kinds[each] for each in kinds if each in types), "text")
