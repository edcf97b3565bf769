"""The Python line and the curl command that are equivalent to an action."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from minibroker_lab.page.actions.requests import ControlRequest

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
