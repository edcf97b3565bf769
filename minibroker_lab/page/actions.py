"""The actions of the Do view: their forms, their requests, and the same action in Python, curl and Kafka's tools.

This is one file of more than 500 lines because an action's form, request and programs are read side by side.
"""

from __future__ import annotations

import json
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import quote, urlencode

from minibroker.cluster.errors import OperationError
from minibroker.config.names import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


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


class ControlRequest(NamedTuple):
    """A control plane request and the form values it was made from.

    Attributes:
        path: The path with its query.
        body: The JSON object of the body, or None.
        values: The values by field name. Empty fields and default values are left out.
    """

    method: str
    path: str
    body: dict[str, Any] | None
    values: dict[str, Any]


def control_request(form: Form, texts: Mapping[str, str]) -> ControlRequest:
    """Return the request for a user's input.

    Invalid numbers are sent as text, and the control plane reports the error.

    Raises:
        OperationError: A required field is empty, a field does not exist, or a line is not a pair.
    """
    names = [form_field.name for form_field in form.fields]
    for name in texts:
        if name not in names:
            raise OperationError(f"{name}: there is no such field{suggestion(name, names)}")
    values: dict[str, Any] = {}
    path = form.path
    for field in form.fields:
        text = texts.get(field.name, "")
        if field.is_needed and not text:
            raise OperationError(f"{field.name}: a value is needed")
        if text and text != field.default and (field.kind != "switch" or text == "true"):
            values[field.name] = _parse_value(field, text)
        if field.place == "path":
            safe = "/" if field.name in {"group_id", "name"} else ""
            path = path.replace(f"{{{field.name}}}", quote(text, safe=safe))
    query = _values_in(form, values, "query")
    return ControlRequest(
        form.method, f"{path}?{urlencode(query)}" if query else path, _build_body(form, values), values
    )


def _build_body(form: Form, values: Mapping[str, Any]) -> dict[str, Any] | None:
    if not form.has_body:
        return None
    body = _values_in(form, values, "body")
    if any(field.place == "record" for field in form.fields):
        return {"records": [_values_in(form, values, "record")], **body}
    return body


def _values_in(form: Form, values: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {field.name: values[field.name] for field in form.fields if field.place == place and field.name in values}


def _parse_value(field: Field, text: str) -> Any:
    if field.kind == "switch":
        return True
    if field.kind == "pairs":
        return _parse_pairs(field.name, text)
    kind = {"integer": int, "name": int, "number": float}.get(field.kind, str)
    try:
        return kind(text)
    except ValueError:
        return text


def _parse_pairs(name: str, text: str) -> dict[str, str] | list[list[str]]:
    """Return the pairs as an object, or as a list of pairs if a name occurs twice."""
    pairs: list[list[str]] = []
    for line in filter(str.strip, text.splitlines()):
        name_part, equals, value_part = line.partition("=")
        if not equals or not name_part.strip():
            raise OperationError(f"{name}: {line!r} is not NAME=VALUE")
        pairs.append([name_part.strip(), value_part.strip()])
    pairs_by_name = {pair[0]: pair[1] for pair in pairs}
    return pairs_by_name if len(pairs_by_name) == len(pairs) else pairs


TOKEN: Final = "MINIBROKER_CONTROL_TOKEN"  # noqa: S105 - the name of a variable


def curl_line(request: ControlRequest, base: str, *, needs_token: bool) -> str:
    """Return the curl command that sends a request to a control plane.

    Args:
        request: The request.
        base: The URL of the control plane.
        needs_token: Whether the control plane requires a token.
    """
    words = ["curl", "-sS"]
    if request.method != "GET":
        words += ["-X", request.method]
    words.append(shlex.quote(base + request.path))
    if needs_token:
        words += ["-H", f'"Authorization: Bearer ${TOKEN}"']
    if request.body is not None:
        body = json.dumps(request.body, ensure_ascii=False)
        words += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(body)]
    return " ".join(words)


def python_line(name: str, values: Mapping[str, Any], directory: str | None) -> str:
    """Return a line of Python that uses a `Broker` named `broker`.

    Args:
        name: The name of the action.
        values: The values of the form.
        directory: The directory of the snapshot named in the values.
    """
    if name == "restore_snapshot":
        return _call("broker.restore", directory)
    return _PYTHON[name]({**values})


def _produce(values: dict[str, Any]) -> str:
    if isinstance(values.get("headers"), list):
        values["headers"] = [tuple(pair) for pair in values["headers"]]
    return _call("broker.produce", values.pop("topic"), values.pop("value", None), **values)


def _format_records(values: dict[str, Any]) -> str:
    limit = values.pop("limit", None)
    return _call("broker.records", values.pop("topic"), **values) + (
        "" if limit is None else f"[:{_format_literal(limit)}]"
    )


def _move_leader(values: dict[str, Any]) -> str:
    return _call("broker.move_leader", values["topic"], values["partition"], to=values["node_id"])


def _format_snapshot(values: dict[str, Any]) -> str:
    return _call("broker.snapshot", *([values["directory"]] if "directory" in values else ()))


_PYTHON: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "produce": _produce,
    "read_records": _format_records,
    "create_topic": lambda values: _call("broker.create_topic", values.pop("name"), **values),
    "rebalance": lambda values: f"broker.group({_format_literal(values['group_id'])}).rebalance()",
    "move_leader": _move_leader,
    "stop_broker": lambda values: f"broker.brokers[{_format_literal(values['node_id'])}].stop()",
    "start_broker": lambda values: f"broker.brokers[{_format_literal(values['node_id'])}].start()",
    "advance_clock": lambda values: _call("broker.clock.advance", values["seconds"]),
    "add_fault": lambda values: _call("broker.faults.add", **values),
    "clear_faults": lambda _: _call("broker.faults.clear"),
    "reset": lambda values: _call("broker.reset", **values),
    "take_snapshot": _format_snapshot,
}


def _call(name: str, *arguments: Any, **named: Any) -> str:
    words = [*map(_format_literal, arguments), *(f"{key}={_format_literal(value)}" for key, value in named.items())]
    return f"{name}({', '.join(words)})"


def _format_literal(value: Any) -> str:
    """Return a value as a Python literal, in double quotes if that needs no escapes."""
    if isinstance(value, dict):
        pairs = cast("Mapping[str, Any]", value).items()
        return f"{{{', '.join(f'{_format_literal(key)}: {_format_literal(element)}' for key, element in pairs)}}}"
    if isinstance(value, list | tuple):
        elements = ", ".join(map(_format_literal, cast("Sequence[Any]", value)))
        return f"[{elements}]" if isinstance(value, list) else f"({elements})"
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


_NONE: Final = "None of Kafka's tools does this."
_NULL: Final = "NULL"
PATIENCE_MS: Final = 10_000
"""The timeout of the console consumer. A new JVM takes seconds to get its group's assignment."""


class ToolLine(NamedTuple):
    """A shell command, or None and the reason why no tool can do this."""

    line: str | None
    reason: str = ""


def tool_line(name: str, values: Mapping[str, Any], servers: str, replicas: Sequence[int]) -> ToolLine:
    """Return the command of a Kafka tool that is equivalent to an action.

    Args:
        name: The name of the action.
        values: The values of the action's fields.
        servers: The bootstrap servers.
        replicas: The replicas of the partition in `values`, or empty if they are unknown.
    """
    if name == "move_leader":
        return _leader_election(values, servers, replicas)
    make = _TOOLS.get(name)
    return ToolLine(None, _NONE) if make is None else make(values, servers)


def _create_topic(values: Mapping[str, Any], servers: str) -> ToolLine:
    words = ["kafka-topics.sh", "--bootstrap-server", servers, "--create", "--topic", values["name"]]
    for name in ("partitions", "replication_factor"):
        if name in values:
            words += [f"--{name.replace('_', '-')}", str(values[name])]
    for key, value in _pairs(values, "configs"):
        words += ["--config", f"{key}={value}"]
    return ToolLine(shlex.join(words))


def _console_producer(values: Mapping[str, Any], servers: str) -> ToolLine:
    """Return a console producer command. Its input lines are headers, key and value, separated by tabs."""
    for name in ("partition", "timestamp", "message_format"):
        if name in values:
            return ToolLine(None, f"The console producer has no option for the {name.replace('_', ' ')}.")
    words = ["kafka-console-producer.sh", "--bootstrap-server", servers, "--topic", values["topic"]]
    if "codec" in values:
        words += ["--compression-codec", values["codec"]]
    parts: list[str] = []
    pairs = _pairs(values, "headers")
    if pairs:
        if any(set(",:") & set(text) for pair in pairs for text in pair):
            return ToolLine(None, "The console producer cannot read headers with a comma or a colon.")
        words += ["--property", "parse.headers=true"]
        parts.append(",".join(f"{name}:{value}" for name, value in pairs))
    if "key" in values:
        words += ["--property", "parse.key=true"]
        parts.append(values["key"])
    if "value" not in values:
        words += ["--property", f"null.marker={_NULL}"]
    parts.append(values.get("value", _NULL))
    if any(set("\t\r\n") & set(part) for part in parts) or ("value" not in values and _NULL in parts[:-1]):
        return ToolLine(None, "The console producer reads a record from one line, with tabs between its parts.")
    form = r"\t".join(["%s"] * len(parts)) + r"\n"
    return ToolLine(f"printf {shlex.quote(form)} {shlex.join(parts)} | {shlex.join(words)}")


def _pairs(values: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """Return the pairs of a field, which is an object or a list of pairs."""
    pairs: dict[str, str] | list[list[str]] = values.get(name, {})
    return list(pairs.items()) if isinstance(pairs, dict) else [(pair[0], pair[1]) for pair in pairs]


def _read_records(values: Mapping[str, Any], servers: str) -> ToolLine:
    words = ["kafka-console-consumer.sh", "--bootstrap-server", servers, "--topic", values["topic"]]
    if "partition" in values:
        words += ["--partition", str(values["partition"]), "--offset", str(values.get("start", "earliest"))]
    elif "start" in values:
        return ToolLine(None, "The console consumer takes an offset for one partition only.")
    else:
        words.append("--from-beginning")
    words += ["--isolation-level", values.get("isolation", "read_committed")]
    if "limit" in values:
        words += ["--max-messages", str(values["limit"])]
    for name in ("partition", "offset", "key"):
        words += ["--property", f"print.{name}=true"]
    return ToolLine(shlex.join([*words, "--timeout-ms", str(PATIENCE_MS)]))


def _leader_election(values: Mapping[str, Any], servers: str, replicas: Sequence[int]) -> ToolLine:
    """Return commands that make the broker the first replica, and then elect the preferred leader."""
    if not replicas:
        return ToolLine(None, "The broker does not know this partition.")
    topic, partition, node = values["topic"], values["partition"], values["node_id"]
    order = [node, *(replica for replica in replicas if replica != node)]
    plan = json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": partition, "replicas": order}]})
    server = ["--bootstrap-server", servers]
    move = ["kafka-reassign-partitions.sh", *server, "--reassignment-json-file", "/dev/stdin", "--execute"]
    elect = ["kafka-leader-election.sh", *server, "--election-type", "preferred", "--topic", topic]
    elect += ["--partition", str(partition)]
    return ToolLine(f"printf %s {shlex.quote(plan)} | {shlex.join(move)} && {shlex.join(elect)}")


_TOOLS: Final[dict[str, Callable[[Mapping[str, Any], str], ToolLine]]] = {
    "create_topic": _create_topic,
    "produce": _console_producer,
    "read_records": _read_records,
}
