"""New replicas for the partitions of a topic, as `--generate` proposes them (`AdminUtils`)."""

import secrets
from collections.abc import Mapping
from itertools import count
from typing import Final

from minibroker_tools.failures import ToolError

_RANDOM: Final = secrets.SystemRandom()


def propose(racks: Mapping[int, str | None], partitions: int, factor: int) -> list[list[int]]:
    """The replicas of so many partitions on the brokers of `racks`, the preferred leader first. ToolError.

    Leaders go round from a random broker on, and the other replicas follow at a distance that grows by one with each
    round. Where brokers have racks, no rack gets a second replica before each has one.
    """
    if factor > len(racks):
        raise ToolError(f"Replication factor: {factor} larger than available brokers: {len(racks)}.")
    nodes = _alternating(racks)
    rack_count = len(set(racks.values())) if any(racks.values()) else 0
    start, shift = _RANDOM.randrange(len(nodes)), _RANDOM.randrange(len(nodes))
    proposed: list[list[int]] = []
    for partition in range(partitions):
        if partition > 0 and partition % len(nodes) == 0:
            shift += 1
        first = (partition + start) % len(nodes)
        proposed.append(_replicas(nodes, racks, first, shift * max(rack_count, 1), factor, rack_count))
    return proposed


def _replicas(
    nodes: list[int], racks: Mapping[int, str | None], first: int, shift: int, factor: int, rack_count: int
) -> list[int]:
    chosen = [nodes[first]]
    used = {racks[chosen[0]]}
    for step in count():
        if len(chosen) == factor:
            break
        node = nodes[(first + 1 + (shift + step) % (len(nodes) - 1)) % len(nodes)]
        if node not in chosen and (racks[node] not in used or len(used) >= rack_count):
            chosen.append(node)
            used.add(racks[node])
    return chosen


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers, one of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for node in sorted(racks):
        by_rack.setdefault(racks[node] or "", []).append(node)
    longest = max(map(len, by_rack.values()))
    return [group[turn] for turn in range(longest) for _, group in sorted(by_rack.items()) if turn < len(group)]
