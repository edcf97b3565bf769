"""The JSON of kafka-reassign-partitions: topics to move, and plans with the replicas of partitions."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from minibroker_protocol.java_text import long_of
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.reassignments import Replica
from minibroker_tools.commands.json_files import named
from minibroker_tools.failures import ToolError
from minibroker_tools.output import joined

T = TypeVar("T")
Name = TypeVar("Name", int, str)

_ANY: Final = "any"
_VERSION: Final = 1


class Plan(NamedTuple):
    """Partitions with their new replicas, in the order of the file, and the log directories of some replicas."""

    partitions: list[tuple[TopicPartition, list[int]]]
    directories: dict[Replica, str]


def topics_of(content: Any) -> list[str]:
    """The topics of `{"topics": [{"topic": "orders"}]}`. ToolError."""
    entries = _entries(content, "topics")
    topics = [_text(_member(_object(entry), "topic")) for entry in entries]
    double = _duplicates(topics)
    if double:
        raise ToolError(f"List of topics to reassign contains duplicate entries: [{', '.join(double)}]")
    return topics


def plan_of(content: Any) -> Plan:
    """The plan of `{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}`. ToolError."""
    plan = Plan([], {})
    for each in _entries(content, "partitions"):
        entry = _object(each)
        partition = _text(_member(entry, "topic")), _number(_member(entry, "partition"))
        replicas = _list(_member(entry, "replicas"), _number)
        directories = _list(entry["log_dirs"], _text) if "log_dirs" in entry else [_ANY] * len(replicas)
        if len(replicas) != len(directories):
            raise ToolError(
                f"Size of replicas list {_shown(replicas)} is different from size of log dirs list "
                f"{_shown(directories)} for partition {named(partition)}"
            )
        plan.partitions.append((partition, replicas))
        for node, directory in zip(replicas, directories, strict=True):
            if directory != _ANY:
                plan.directories[Replica(node, *partition)] = directory
    return plan


def check_executable(plan: Plan) -> None:
    """ToolError for a plan without partitions or replicas, or with one of them twice."""
    if not plan.partitions:
        raise ToolError("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.partitions):
        raise ToolError("Partition replica list cannot be empty")
    double = _duplicates(named(partition) for partition, _ in plan.partitions)
    if double:
        raise ToolError(f"Partition reassignment contains duplicate topic partitions: {','.join(double)}")
    repeated = [(named(partition), _duplicates(replicas)) for partition, replicas in plan.partitions]
    problems = [f"{name} contains multiple entries for {joined(nodes)}" for name, nodes in repeated if nodes]
    if problems:
        raise ToolError(f"Partition replica lists may not contain duplicate entries: {'. '.join(problems)}")


def broker_ids(text: str) -> list[int]:
    """The ids of `--broker-list`. ToolError."""
    found: list[int] = []
    for word in text.split(","):
        try:
            found.append(long_of(word))
        except ValueError:
            raise ToolError(f'For input string: "{word}"') from None
    double = _duplicates(found)
    if double:
        raise ToolError(f"Broker list contains duplicate entries: {_shown(double)}")
    return found


def as_json(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A plan as Kafka's tool prints it, on one line."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(nodes), "log_dirs": [_ANY] * len(nodes)}
        for (topic, index), nodes in sorted(replicas.items())
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions}, separators=(",", ":"))


def _entries(content: Any, name: str) -> list[Any]:
    members = _object(content)
    version = _number(members.get("version", _VERSION))
    if version != _VERSION:
        raise ToolError(f"Not supported version field value {version}")
    return _list(members.get(name, []), _anything)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolError(f"Expected JSON object, received {_as_text(value)}")
    return cast("dict[str, Any]", value)


def _member(members: Mapping[str, Any], name: str) -> Any:
    if name not in members:
        raise ToolError(f"No such field exists: `{name}`")
    return members[name]


def _list(value: Any, read: Callable[[Any], T]) -> list[T]:
    found: list[Any] = value
    if not isinstance(value, list):
        raise ToolError(f"Expected JSON array, received {_as_text(value)}")
    return [read(each) for each in found]


def _anything(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ToolError(f"Expected `String` value, received {_as_text(value)}")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ToolError(f"Expected `Integer` value, received {_as_text(value)}")
    return value


def _as_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _duplicates(values: Iterable[Name]) -> list[Name]:
    found = list(values)
    return sorted({each for each in found if found.count(each) > 1})


def _shown(values: Iterable[object]) -> str:
    """A list as Java prints it."""
    return f"[{', '.join(map(str, values))}]"
