"""The throttles of kafka-reassign-partitions: rates of brokers, and the replicas of topics that they hold for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import BROKER, TOPIC, alter_configs
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.reassignments import Reassignment, Replica
from minibroker_tools.output import joined, out, plural_s

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"


def throttle_brokers(
    cluster: Cluster,
    targets: Mapping[TopicPartition, list[int]],
    moves: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, list[int]],
    rate: int,
) -> None:
    """Throttle the brokers that the moves concern, at `rate` bytes per second. ApiError."""
    sources: dict[TopicPartition, set[int]] = {}
    destinations: dict[TopicPartition, set[int]] = {}
    for partition, move in moves.items():
        sources[partition] = set(move.replicas) - set(move.adding)
        destinations[partition] = set(move.adding)
    for partition, replicas in targets.items():
        sources.setdefault(partition, set(current[partition]))
        destinations[partition] = set(replicas) - sources[partition]
    topics = sorted({topic for topic, _ in sources})
    alter_configs(
        cluster,
        {
            (TOPIC, topic): [
                (_LEADERS, _listed(topic, sources)),
                (_FOLLOWERS, _listed(topic, destinations)),
            ]
            for topic in topics
        },
    )
    nodes = sorted({node for group in (*sources.values(), *destinations.values()) for node in group})
    alter_configs(cluster, {(BROKER, str(node)): [(key, str(rate)) for key in _RATES] for node in nodes})
    out(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_directories(cluster: Cluster, replicas: Iterable[Replica], rate: int) -> None:
    """Throttle the brokers of replicas that move between directories, at `rate` bytes per second. ApiError."""
    nodes = sorted({each.node for each in replicas})
    alter_configs(cluster, {(BROKER, str(node)): [(_DIRECTORY_RATE, str(rate))] for node in nodes})
    out(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def clear_throttles(cluster: Cluster, partitions: Sequence[tuple[TopicPartition, list[int]]]) -> None:
    """End the throttles of all brokers and of the topics. ApiError."""
    nodes = {broker.node_id for broker in cluster.brokers()}
    nodes |= {node for _, replicas in partitions for node in replicas}
    out(f"Clearing broker-level throttles on broker{plural_s(nodes)} {joined(sorted(nodes))}")
    alter_configs(
        cluster, {(BROKER, str(node)): [(key, None) for key in (*_RATES, _DIRECTORY_RATE)] for node in sorted(nodes)}
    )
    topics = sorted({topic for (topic, _), _ in partitions})
    out(f"Clearing topic-level throttles on topic{plural_s(topics)} {joined(topics)}")
    alter_configs(cluster, {(TOPIC, topic): [(_LEADERS, None), (_FOLLOWERS, None)] for topic in topics})


def _listed(topic: str, replicas: Mapping[TopicPartition, set[int]]) -> str:
    entries = {f"{index}:{node}" for (name, index), nodes in replicas.items() if name == topic for node in nodes}
    return ",".join(sorted(entries))
