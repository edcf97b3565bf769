"""The forms of the Do view, and the table of its actions."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_REF: Final = "#/components/schemas/"
_RECORDS: Final = "records"
_PATH_MEANINGS: Final = {
    "topic": "The name of the topic.",
    "partition": "The number of the partition, from 0.",
    "group_id": "The id of the group.",
    "node_id": "The id of the broker.",
    "name": "The name of the snapshot.",
}
"""The meanings of path parameters, because the OpenAPI document has only their names."""


class Field(NamedTuple):
    """One field of a form.

    Attributes:
        place: "path", "query" or "body" of the request, or "record" for a field of the body's only record.
        kind: "text", "integer", "number", "name" (a text or an integer), "choice", "switch" or "pairs".
        default: The default value as text, or an empty string if there is none.
        choices: The possible values of a choice.
        known: The kind of value that the page suggests, or an empty string.
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
    """The form of an action.

    Attributes:
        path: The path of the request, with the names of fields in braces.
        has_body: Whether the request has a JSON object as its body.
    """

    action: Action
    method: str
    path: str
    meaning: str
    has_body: bool
    fields: tuple[Field, ...]


def forms(document: Mapping[str, Any]) -> dict[str, Form]:
    """Return the forms of all actions by name, built from an OpenAPI document."""
    operations = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    return {action.name: _build_form(action, document, *operations[action.name]) for action in ACTIONS}


def _build_form(
    action: Action, document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> Form:
    content = operation.get("requestBody", {}).get("content", {})
    body: Mapping[str, Any] = _resolve(document, content["application/json"]["schema"]) if content else {}
    fields = sorted(
        (*_parameter_fields(action, operation), *_body_fields(action, document, body)),
        key=lambda field: not field.is_needed,
    )
    return Form(action, method, path, " ".join(operation["description"].split()), bool(content), tuple(fields))


def _parameter_fields(action: Action, operation: Mapping[str, Any]) -> Iterator[Field]:
    for parameter in operation.get("parameters", ()):
        name, place = parameter["name"], parameter["in"]
        if name not in action.hidden and place in {"path", "query"}:
            meaning = _PATH_MEANINGS[name] if place == "path" else parameter.get("description", "")
            yield _build_field(action, name, place, parameter["schema"], meaning, is_needed=parameter["required"])


def _body_fields(action: Action, document: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[Field]:
    needed = {*body.get("required", ()), *action.needed}
    for name, schema in body.get("properties", {}).items():
        if name == _RECORDS:
            record = _resolve(document, schema["items"])
            for field, inner in record["properties"].items():
                yield _build_field(action, field, "record", inner, inner.get("description", ""), is_needed=False)
        elif name not in action.hidden:
            yield _build_field(action, name, "body", schema, schema.get("description", ""), is_needed=name in needed)


def _resolve(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a reference points to, even if the reference is one of several options."""
    for option in schema.get("anyOf", (schema,)):
        if "$ref" in option:
            resolved: Mapping[str, Any] = document["components"]["schemas"][option["$ref"].removeprefix(_REF)]
            return resolved
    return schema


def _build_field(
    action: Action, name: str, place: str, schema: Mapping[str, Any], meaning: str, *, is_needed: bool
) -> Field:
    default = schema.get("default")
    return Field(
        name,
        place,
        _kind_of(name, schema),
        action.meanings.get(name, meaning),
        is_needed,
        "" if default is None or isinstance(default, dict | bool) else str(default),
        tuple(map(str, schema.get("enum", ()))),
        action.lists.get(name, ""),
    )


def _kind_of(name: str, schema: Mapping[str, Any]) -> str:
    if name in {"headers", "configs"}:
        return "pairs"
    if "enum" in schema:
        return "choice"
    types: set[str] = set()
    for option in schema.get("anyOf", (schema,)):
        option_type = option.get("type", "string")
        types |= {option_type} if isinstance(option_type, str) else set(option_type)
    if types == {"string", "integer"}:
        return "name"
    kinds = {"boolean": "switch", "integer": "integer", "number": "number"}
    return next((kinds[schema_type] for schema_type in kinds if schema_type in types), "text")


class Action(NamedTuple):
    """An action of the Do view.

    Attributes:
        name: The name of the control plane's operation.
        title: The title shown to users.
        needed: Fields that the form requires although the operation does not.
        hidden: Fields of the operation that the form omits.
        lists: The kind of value for each field whose values the broker can list.
        meanings: The meanings of fields whose meaning in the form differs from that in the operation.
    """

    name: str
    title: str
    needed: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    lists: Mapping[str, str] = MappingProxyType({})
    meanings: Mapping[str, str] = MappingProxyType({})


_TOPIC: Final = {"topic": "topics"}
_NODE: Final = {"node_id": "brokers"}

ACTIONS: Final = (
    Action(
        "produce",
        "Produce a record",
        lists=_TOPIC,
        meanings={
            "value": "A text. Leave it empty for null.",
            "key": "A text. Leave it empty for null.",
            "headers": "One `NAME=VALUE` per line.",
            "timestamp": "Milliseconds since the epoch. Leave it empty for the broker's time.",
            "partition": "Leave it empty to choose it by the key, or in turn without a key.",
            "codec": "The compression codec of the batch.",
        },
    ),
    Action(
        "read_records",
        "Consume records",
        hidden=frozenset({"format"}),
        lists=_TOPIC,
        meanings={"isolation": "`read_committed` skips records that transactions have not committed."},
    ),
    Action(
        "create_topic",
        "Create a topic",
        needed=frozenset({"name"}),
        hidden=frozenset({"prefix"}),
        meanings={
            "name": "The name of the new topic.",
            "configs": "One `NAME=VALUE` per line, with Kafka's names: `retention.ms=60000`.",
        },
    ),
    Action("rebalance", "Rebalance a group", lists={"group_id": "groups"}),
    Action("move_leader", "Move a leader", lists=_TOPIC | _NODE),
    Action("stop_broker", "Stop a broker", lists=_NODE),
    Action("start_broker", "Start a broker", lists=_NODE),
    Action("advance_clock", "Advance the clock", meanings={"seconds": "The number of seconds to advance by."}),
    Action(
        "add_fault",
        "Install a fault",
        lists={"api": "apis", "error": "errors", "topic": "topics", "group": "groups", "node": "brokers"},
    ),
    Action("clear_faults", "Remove all faults"),
    Action("reset", "Reset the broker"),
    Action(
        "take_snapshot",
        "Save a snapshot",
        meanings={
            "name": "The name of the snapshot. Leave it empty for a number.",
            "directory": "A new directory on the broker's machine. Leave it empty for a temporary one.",
        },
    ),
    Action("restore_snapshot", "Restore a snapshot", lists={"name": "snapshots"}),
)
