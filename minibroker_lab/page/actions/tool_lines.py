"""The equivalent command of Kafka's command line tools for an action, if one exists."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
        return _move_leader(values, servers, replicas)
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


def _produce(values: Mapping[str, Any], servers: str) -> ToolLine:
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


def _move_leader(values: Mapping[str, Any], servers: str, replicas: Sequence[int]) -> ToolLine:
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
    "produce": _produce,
    "read_records": _read_records,
}
