"""Plans of kafka-reassign-partitions: parses, checks and proposes them, and throttles the brokers involved."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol.java_text import to_long
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import BROKER, TOPIC, alter_configs
from minibroker_tools.client.offsets import TopicPartition, group_values
from minibroker_tools.client.reassignments import Reassignment, Replica
from minibroker_tools.commands.common import find_duplicates, partition_name
from minibroker_tools.failures import ToolError
from minibroker_tools.output import compact_json, join_commas, plural_suffix, write_line

_ANY_DIRECTORY: Final = "any"
_VERSION: Final = 1
_RANDOM: Final = secrets.SystemRandom()
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"


class Plan(NamedTuple):
    """A plan: the new replicas of each partition, in file order, and the new log directories of some replicas."""

    partitions: list[tuple[TopicPartition, list[int]]]
    directories: dict[Replica, str]


def parse_topics(content: Any) -> list[str]:
    """Return the topics in `{"topics": [{"topic": "orders"}]}`.

    Raises:
        ToolError: The content is invalid.
    """
    entries = _plan_entries(content, "topics")
    topics = [_check_text(_required_member(_check_object(entry), "topic")) for entry in entries]
    duplicates = find_duplicates(topics)
    if duplicates:
        raise ToolError(f"List of topics to reassign contains duplicate entries: [{', '.join(duplicates)}]")
    return topics


def parse_plan(content: Any) -> Plan:
    """Parse a plan in the form `{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}`.

    Raises:
        ToolError: The content is invalid.
    """
    plan = Plan([], {})
    for element in _plan_entries(content, "partitions"):
        entry = _check_object(element)
        partition = _check_text(_required_member(entry, "topic")), _check_number(_required_member(entry, "partition"))
        replicas = [_check_number(node) for node in _check_list(_required_member(entry, "replicas"))]
        any_directories = [_ANY_DIRECTORY] * len(replicas)
        directories = [_check_text(path) for path in _check_list(entry.get("log_dirs", any_directories))]
        if len(replicas) != len(directories):
            raise ToolError(
                f"Size of replicas list {_java_list(replicas)} is different from size of log dirs list "
                f"{_java_list(directories)} for partition {partition_name(partition)}"
            )
        plan.partitions.append((partition, replicas))
        for node, directory in zip(replicas, directories, strict=True):
            if directory != _ANY_DIRECTORY:
                plan.directories[Replica(node, *partition)] = directory
    return plan


def check_executable(plan: Plan) -> None:
    """Check that a plan has partitions, that each partition has replicas, and that nothing is listed twice.

    Raises:
        ToolError: The plan is invalid.
    """
    if not plan.partitions:
        raise ToolError("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.partitions):
        raise ToolError("Partition replica list cannot be empty")
    duplicates = find_duplicates(partition_name(partition) for partition, _ in plan.partitions)
    if duplicates:
        raise ToolError(f"Partition reassignment contains duplicate topic partitions: {','.join(duplicates)}")
    repeated = [(partition_name(partition), find_duplicates(replicas)) for partition, replicas in plan.partitions]
    problems = [f"{name} contains multiple entries for {join_commas(nodes)}" for name, nodes in repeated if nodes]
    if problems:
        raise ToolError(f"Partition replica lists may not contain duplicate entries: {'. '.join(problems)}")


def parse_broker_ids(text: str) -> list[int]:
    """Parse the broker ids in `--broker-list`.

    Raises:
        ToolError: An id is not a number, or occurs twice.
    """
    ids: list[int] = []
    for word in text.split(","):
        try:
            ids.append(to_long(word))
        except ValueError:
            raise ToolError(f'For input string: "{word}"') from None
    duplicates = find_duplicates(ids)
    if duplicates:
        raise ToolError(f"Broker list contains duplicate entries: {_java_list(duplicates)}")
    return ids


def plan_json(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a plan as one line of JSON, in the format of Kafka's tool."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(nodes), "log_dirs": [_ANY_DIRECTORY] * len(nodes)}
        for (topic, index), nodes in sorted(replicas.items())
    ]
    return compact_json({"version": _VERSION, "partitions": partitions})


def _plan_entries(content: Any, name: str) -> list[Any]:
    members = _check_object(content)
    version = _check_number(members.get("version", _VERSION))
    if version != _VERSION:
        raise ToolError(f"Not supported version field value {version}")
    return _check_list(members.get(name, []))


def _check_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolError(f"Expected JSON object, received {compact_json(value)}")
    return cast("dict[str, Any]", value)


def _required_member(members: Mapping[str, Any], name: str) -> Any:
    if name not in members:
        raise ToolError(f"No such field exists: `{name}`")
    return members[name]


def _check_list(value: Any) -> list[Any]:
    elements: list[Any] = value
    if not isinstance(value, list):
        raise ToolError(f"Expected JSON array, received {compact_json(value)}")
    return elements


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ToolError(f"Expected `String` value, received {compact_json(value)}")
    return value


def _check_number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ToolError(f"Expected `Integer` value, received {compact_json(value)}")
    return value


def _java_list(values: Iterable[object]) -> str:
    """Format a list like Java's `toString`."""
    return f"[{', '.join(map(str, values))}]"


def propose(racks: Mapping[int, str | None], partitions: int, factor: int) -> list[list[int]]:
    """Propose the replicas of each partition on the brokers in `racks`. The first replica is the preferred leader.

    Leaders rotate through the brokers from a random start. The other replicas follow at a distance that grows by
    one after each rotation. If the brokers have racks, no rack gets a second replica before every rack has one.

    Raises:
        ToolError: The replication factor is larger than the number of brokers.
    """
    if factor > len(racks):
        raise ToolError(f"Replication factor: {factor} larger than available brokers: {len(racks)}.")
    nodes = _alternate_racks(racks)
    rack_count = len(set(racks.values())) if any(racks.values()) else 0
    start, shift = _RANDOM.randrange(len(nodes)), _RANDOM.randrange(len(nodes))
    proposed: list[list[int]] = []
    for partition in range(partitions):
        if partition > 0 and partition % len(nodes) == 0:
            shift += 1
        first = (partition + start) % len(nodes)
        proposed.append(_choose_replicas(nodes, racks, first, shift * max(rack_count, 1), factor, rack_count))
    return proposed


def _choose_replicas(
    nodes: list[int], racks: Mapping[int, str | None], first: int, shift: int, factor: int, rack_count: int
) -> list[int]:
    replicas = [nodes[first]]
    used = {racks[nodes[first]]}
    step = 0
    while len(replicas) < factor:
        node = nodes[(first + 1 + (shift + step) % (len(nodes) - 1)) % len(nodes)]
        if node not in replicas and (racks[node] not in used or len(used) >= rack_count):
            replicas.append(node)
            used.add(racks[node])
        step += 1
    return replicas


def _alternate_racks(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers in an order that alternates between racks."""
    by_rack = group_values((racks[node] or "", node) for node in sorted(racks))
    turns = zip_longest(*(nodes for _, nodes in sorted(by_rack.items())))
    return [node for turn in turns for node in turn if node is not None]


def throttle_brokers(
    cluster: Cluster,
    targets: Mapping[TopicPartition, list[int]],
    moves: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, list[int]],
    rate: int,
) -> None:
    """Throttle the brokers involved in the moves to `rate` bytes per second.

    Raises:
        ApiError: A broker refused a configuration.
    """
    sources: dict[TopicPartition, set[int]] = {}
    destinations: dict[TopicPartition, set[int]] = {}
    for partition, move in moves.items():
        sources[partition] = set(move.replicas) - set(move.adding_replicas)
        destinations[partition] = set(move.adding_replicas)
    for partition, replicas in targets.items():
        sources.setdefault(partition, set(current[partition]))
        destinations[partition] = set(replicas) - sources[partition]
    topics = sorted({topic for topic, _ in sources})
    alter_configs(
        cluster,
        {
            (TOPIC, topic): [
                (_LEADERS, _throttled_replicas(topic, sources)),
                (_FOLLOWERS, _throttled_replicas(topic, destinations)),
            ]
            for topic in topics
        },
    )
    nodes = sorted({node for group in (*sources.values(), *destinations.values()) for node in group})
    alter_configs(cluster, {(BROKER, str(node)): [(key, str(rate)) for key in _RATES] for node in nodes})
    write_line(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_directories(cluster: Cluster, replicas: Iterable[Replica], rate: int) -> None:
    """Throttle the brokers whose replicas move between log directories to `rate` bytes per second.

    Raises:
        ApiError: A broker refused a configuration.
    """
    nodes = sorted({replica.node for replica in replicas})
    alter_configs(cluster, {(BROKER, str(node)): [(_DIRECTORY_RATE, str(rate))] for node in nodes})
    write_line(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def clear_throttles(cluster: Cluster, partitions: Sequence[tuple[TopicPartition, list[int]]]) -> None:
    """Remove the throttles of all brokers and of the topics.

    Raises:
        ApiError: A broker refused a configuration.
    """
    nodes = {broker.node_id for broker in cluster.brokers()}
    nodes |= {node for _, replicas in partitions for node in replicas}
    write_line(f"Clearing broker-level throttles on broker{plural_suffix(nodes)} {join_commas(sorted(nodes))}")
    alter_configs(
        cluster, {(BROKER, str(node)): [(key, None) for key in (*_RATES, _DIRECTORY_RATE)] for node in sorted(nodes)}
    )
    topics = sorted({topic for (topic, _), _ in partitions})
    write_line(f"Clearing topic-level throttles on topic{plural_suffix(topics)} {join_commas(topics)}")
    alter_configs(cluster, {(TOPIC, topic): [(_LEADERS, None), (_FOLLOWERS, None)] for topic in topics})


def _throttled_replicas(topic: str, replicas: Mapping[TopicPartition, set[int]]) -> str:
    entries = {f"{index}:{node}" for (name, index), nodes in replicas.items() if name == topic for node in nodes}
    return ",".join(sorted(entries))
