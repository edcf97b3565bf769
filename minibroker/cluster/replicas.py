"""Replica assignment by Kafka's two algorithms, which spread the replicas of a partition over racks.

Kafka starts at a random broker and shuffles the brokers occasionally. Here the caller sets the first broker, so that
tests get the same leaders every time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Final, TypeVar

Replicas = tuple[int, ...]
"""The node ids of a partition's replicas, the preferred leader first."""
Racks = Mapping[int, str]
"""The racks by node id. Nodes without a rack are missing. As in KRaft, all of them together count as one rack."""
PartitionRacks = tuple[tuple[str, ...], ...]
"""The sorted racks of the replicas of each partition of a topic. Empty if no broker has a rack."""

Item = TypeVar("Item")
_NO_RACKS: Final[Racks] = {}


def assign_replicas(
    nodes: Sequence[int],
    partitions: int,
    factor: int,
    *,
    start: int = 0,
    first_partition: int = 0,
    racks: Racks = _NO_RACKS,
) -> list[Replicas]:
    """Place new partitions as Kafka's `AdminUtils` does.

    The first replicas rotate over `nodes`, starting at position `start`. The other replicas follow at a distance
    that grows by one with each round. No rack gets a second replica before every rack has one.

    Args:
        nodes: The node ids.
        partitions: The number of new partitions.
        factor: The replication factor, at most the number of nodes.
        start: The position of the first node.
        first_partition: The number of the first new partition.
        racks: The racks of the nodes.
    """
    if racks:
        nodes = _interleave(_group_by_rack(nodes, racks).values())
    node_count = len(nodes)
    rack_count = len({racks.get(node) for node in nodes})
    shift = start + (first_partition - 1) // node_count if first_partition > 0 else start
    assigned: list[Replicas] = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % node_count == 0:
            shift += 1
        first = (partition + start) % node_count
        replicas = [nodes[first]]
        used = {racks.get(nodes[first])}
        steps = count(shift * rack_count)
        while len(replicas) < factor:
            node = nodes[(first + 1 + next(steps) % (node_count - 1)) % node_count]
            rack = racks.get(node)
            if node not in replicas and (rack not in used or len(used) == rack_count):
                replicas.append(node)
                used.add(rack)
        assigned.append(tuple(replicas))
    return assigned


def stripe_replicas(nodes: Sequence[int], partitions: int, factor: int, *, start: int, racks: Racks) -> list[Replicas]:
    """Place new partitions as KRaft's `StripedReplicaPlacer` does. Leaders rotate over racks, not over nodes."""
    by_rack = _group_by_rack(nodes, racks)
    names = list(by_rack)
    turns = Counter[str]()
    assigned: list[Replicas] = []
    for partition in range(start, start + partitions):
        order = _rotate(names, partition)
        replicas = _interleave([_rotate(by_rack[name], turns[name]) for name in order])[:factor]
        turns.update({racks.get(node, "") for node in replicas})
        assigned.append(tuple(replicas))
    return assigned


def racks_of(partitions: Iterable[Replicas], racks: Racks) -> PartitionRacks:
    """Return the racks of each partition's replicas."""
    return tuple(tuple(sorted(racks[node_id] for node_id in replicas if node_id in racks)) for replicas in partitions)


def _group_by_rack(nodes: Iterable[int], racks: Racks) -> dict[str, list[int]]:
    """Return the nodes grouped by rack, with racks and nodes in ascending order."""
    names = sorted({racks.get(node, "") for node in nodes})
    return {name: sorted(node for node in nodes if racks.get(node, "") == name) for name in names}


def _rotate(items: Sequence[Item], by: int) -> list[Item]:
    by %= len(items)
    return [*items[by:], *items[:by]]


def _interleave(groups: Iterable[Sequence[int]]) -> list[int]:
    """Return the first node of each group, then the second node of each, and so on."""
    groups = tuple(groups)
    return [group[turn] for turn in range(max(map(len, groups))) for group in groups if turn < len(group)]
