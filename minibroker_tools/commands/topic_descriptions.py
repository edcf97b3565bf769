"""The output of `kafka-topics --describe`."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from minibroker_protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.uuids import uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import ConfigEntry, describe_configs, is_default
from minibroker_tools.failures import ApiError, check
from minibroker_tools.options import Values
from minibroker_tools.output import out

_PAGE: Final = 2000
_TOPIC: Final = 2
"""The resource type of topics in DescribeConfigs."""


class _Partition(NamedTuple):
    number: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None
    last_known_elr: list[int] | None


class _Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: list[_Partition]


class _Move(NamedTuple):
    replicas: list[int]
    adding: list[int]
    removing: list[int]


def describe(cluster: Cluster, values: Values, names: Sequence[str]) -> None:
    """Print the topics of these names as the options of the command line ask."""
    if not names:
        return
    topics = _topics(cluster, names, values.number("partition-size-limit-per-response", _PAGE))
    configs = describe_configs(cluster, [(_TOPIC, name) for name in names])
    alive = {broker.node_id for broker in cluster.brokers()}
    moves = _moves(cluster)
    for topic in topics:
        _describe(topic, configs[_TOPIC, topic.name], alive, moves, values)


def _describe(
    topic: _Topic,
    configs: Sequence[ConfigEntry],
    alive: set[int],
    moves: dict[tuple[str, int], _Move],
    values: Values,
) -> None:
    own = [f"{entry.name}={_java(entry.value)}" for entry in configs if not is_default(entry)]
    minimum = next((int(entry.value or 1) for entry in configs if entry.name == "min.insync.replicas"), 1)

    def replicas_of(partition: _Partition) -> int:
        move = moves.get((topic.name, partition.number))
        if move is None or not {*move.adding, *move.removing} & set(partition.replicas):
            return len(partition.replicas)
        return len(move.replicas) - len(move.adding)

    reports: dict[str, Callable[[_Partition], bool]] = {
        "under-replicated-partitions": lambda each: replicas_of(each) > len(each.isr),
        "under-min-isr-partitions": lambda each: each.leader < 0 or len(each.isr) < minimum,
        "at-min-isr-partitions": lambda each: len(each.isr) == minimum,
        "unavailable-partitions": lambda each: each.leader not in alive,
    }
    asked = [report for name, report in reports.items() if values.has(name)]
    overridden_only = values.has("topics-with-overrides")
    if not asked and (own or not overridden_only):
        topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {uuid_text(topic.topic_id)}"
        out(
            f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {replicas_of(topic.partitions[0])}\tConfigs: {','.join(own)}"
        )
    if overridden_only:
        return
    for partition in topic.partitions:
        if not asked or any(report(partition) for report in asked):
            _print_partition(topic.name, partition, moves.get((topic.name, partition.number)))


def _print_partition(topic: str, partition: _Partition, move: _Move | None) -> None:
    leader = "none" if partition.leader < 0 else partition.leader
    line = (
        f"\tTopic: {topic}\tPartition: {partition.number}\tLeader: {leader}"
        f"\tReplicas: {_list(partition.replicas)}\tIsr: {_list(partition.isr)}"
    )
    if move is not None:
        line += f"\tAdding Replicas: {_list(move.adding)}\tRemoving Replicas: {_list(move.removing)}"
    elr = "N/A" if partition.elr is None else _list(partition.elr)
    last_known = "N/A" if partition.last_known_elr is None else _list(partition.last_known_elr)
    out(f"{line}\tElr: {elr}\tLastKnownElr: {last_known}")


def _topics(cluster: Cluster, names: Sequence[str], page: int) -> list[_Topic]:
    if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in cluster.any().versions:
        return [
            _Topic(topic.name or "", topic.topic_id, _sorted(topic.partitions, known=False))
            for topic in cluster.topics(names)
        ]
    return _paged(cluster, names, page)


def _paged(cluster: Cluster, names: Sequence[str], page: int) -> list[_Topic]:
    found: dict[str, _Topic] = {}
    cursor: Cursor | None = None
    while True:
        topics = [TopicRequest(name=name) for name in sorted(names)]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=page, cursor=cursor)
        response: DescribeTopicPartitionsResponse = cluster.ask(request)
        for topic in response.topics:
            check(topic.error_code)
            name = topic.name or ""
            known = found.setdefault(name, _Topic(name, topic.topic_id, []))
            known.partitions.extend(_sorted(topic.partitions, known=True))
        cursor = response.next_cursor
        if cursor is None:
            return list(found.values())


def _sorted(partitions: Sequence[Any], *, known: bool) -> list[_Partition]:
    """`known`: the answer says which replicas are eligible leaders."""
    return [
        _Partition(
            each.partition_index,
            each.leader_id,
            each.replica_nodes,
            each.isr_nodes,
            each.eligible_leader_replicas or [] if known else None,
            each.last_known_elr or [] if known else None,
        )
        for each in sorted(partitions, key=lambda each: int(each.partition_index))
    ]


def _moves(cluster: Cluster) -> dict[tuple[str, int], _Move]:
    try:
        response = cluster.ask_controller(ListPartitionReassignmentsRequest(timeout_ms=30_000))
        check(response.error_code, response.error_message)
    except ApiError:  # Kafka shows topics also where it may not see reassignments, or the broker has none
        return {}
    return {
        (topic.name, each.partition_index): _Move(each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }


def _list(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _java(value: str | None) -> str:
    return "null" if value is None else value
