"""Brokers, and the leaders and in-sync replicas of partitions, for the lab's page."""

from dataclasses import dataclass
from typing import Final

from minibroker.server.services import Services

MAX_ELEMENTS: Final = 200
"""Maximum number of partitions."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker. `leads` is the number of partitions it leads, not counting those of internal topics."""

    id: int
    is_up: bool
    leads: int


@dataclass(frozen=True, slots=True)
class ReplicasRow:
    """A partition. `leader` is None if the partition has no leader."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_under_min_isr: bool


@dataclass(frozen=True, slots=True)
class ReplicasView:
    """All brokers, and the first 200 of `partition_count` partitions.

    Partitions with out-of-sync replicas come first. Partitions of internal topics are excluded.
    """

    brokers: tuple[BrokerRow, ...]
    partition_count: int
    partitions: tuple[ReplicasRow, ...]


async def replicas_view(services: Services) -> ReplicasView:
    """Return the brokers and their partitions."""
    leads: dict[int, int] = {}
    in_sync: list[ReplicasRow] = []
    out_of_sync: list[ReplicasRow] = []
    count = 0
    for topic in [topic for topic in services.core.topics if not topic.is_internal]:
        for partition in topic.partitions:
            leader = None if partition.leader is None else partition.leader.id
            count += 1
            if leader is not None:
                leads[leader] = leads.get(leader, 0) + 1
            rows = in_sync if leader is not None and len(partition.isr) == len(partition.replicas) else out_of_sync
            if len(rows) < MAX_ELEMENTS:
                epoch, is_under_min_isr = partition.leader_epoch, partition.is_under_min_isr
                replicas, isr = tuple(partition.replicas), tuple(partition.isr)
                rows.append(ReplicasRow(topic.name, partition.index, leader, epoch, replicas, isr, is_under_min_isr))
    nodes = sorted(services.core.cluster.nodes.values(), key=lambda node: node.id)
    brokers = tuple(BrokerRow(node.id, node.is_up, leads.get(node.id, 0)) for node in nodes)
    return ReplicasView(brokers, count, tuple([*out_of_sync, *in_sync][:MAX_ELEMENTS]))
