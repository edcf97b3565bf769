"""Replica assignment: brokers in turn, with a shift, without regard to racks.

The rule is that of Kafka's `AdminUtils.assignReplicasToBrokersRackUnaware`. Kafka begins at a random broker; here the
caller says where, so that a test finds its leaders in the same places every time.
"""

from collections.abc import Sequence

Replicas = tuple[int, ...]
"""The node ids of a partition's replicas, the preferred leader first."""


def assign_replicas(
    nodes: Sequence[int], partitions: int, factor: int, *, start: int = 0, first_partition: int = 0
) -> list[Replicas]:
    """The replicas of `partitions` new partitions, numbered from `first_partition` on.

    The first replicas go round over `nodes`, from the one at `start`; the others follow at a distance that grows by
    one with each round. `factor` is at most the number of nodes.
    """
    count = len(nodes)
    shift = start + (first_partition - 1) // count if first_partition > 0 else start
    assigned: list[Replicas] = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        others = (nodes[_replica_index(first, shift, number, count)] for number in range(factor - 1))
        assigned.append((nodes[first], *others))
    return assigned


def _replica_index(first: int, shift: int, number: int, count: int) -> int:
    """The index among `count` nodes of the replica `number` behind the first one."""
    return (first + 1 + (shift + number) % (count - 1)) % count
