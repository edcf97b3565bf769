"""As many partitions for each member as for any other, and as few moves as that allows (Kafka's `UniformAssignor`).

Where all members subscribe to the same topics a count decides (`UniformHomogeneousAssignmentBuilder` of Kafka 3.9).
"""

from minibroker.groups.consumer.assignors.java_order import (
    TopicPartition,
    copied_table_size,
    hash_order,
    in_order,
    string_hash,
    uuid_hash,
)
from minibroker.groups.consumer.assignors.spec import GroupSpec
from minibroker.groups.consumer.assignors.uniform_mixed import MixedAssignment
from minibroker.groups.consumer.partitions import Partitions, frozen


def assign_uniformly(group: GroupSpec) -> dict[str, Partitions]:
    """Assign all partitions of all topics that anybody subscribes to."""
    if not group.members:
        return {}
    return _assign_alike(group) if group.homogeneous else MixedAssignment(group).build()


def _assign_alike(group: GroupSpec) -> dict[str, Partitions]:
    """All members read the same topics."""
    members = hash_order(group.members, string_hash)
    subscribed = group.members[members[0]].topics
    topics = hash_order(subscribed, uuid_hash, copied_table_size(len(subscribed)))
    if not topics:
        return {}
    taken = {
        (topic, index)
        for member in group.members.values()
        for topic, indexes in member.assigned.items()
        for index in indexes
    }
    free = [(topic, i) for topic in topics for i in range(group.counts[topic]) if (topic, i) not in taken]
    quota, larger = divmod(sum(group.counts[topic] for topic in topics), len(members))
    assigned: dict[str, dict[bytes, set[int]]] = {}
    lacking: dict[str, int] = {}
    for number, member_id in enumerate(members):
        room = quota + (number < larger)
        kept, given_up = _keep(group.members[member_id].assigned, set(topics), room)
        assigned[member_id] = kept
        free += given_up
        missing = room - sum(map(len, kept.values()))
        if missing:
            lacking[member_id] = missing
    left = iter(free)
    for member_id, missing in lacking.items():
        for _, (topic, index) in zip(range(missing), left, strict=False):
            assigned[member_id].setdefault(topic, set()).add(index)
    return {member_id: frozen(partitions) for member_id, partitions in assigned.items()}


def _keep(had: Partitions, topics: set[bytes], room: int) -> tuple[dict[bytes, set[int]], list[TopicPartition]]:
    """What a member may keep of what it had, and what it has to give to others."""
    kept: dict[bytes, set[int]] = {}
    given_up: list[TopicPartition] = []
    for topic in hash_order(had, uuid_hash):
        if topic not in topics:
            continue
        indexes = in_order(had[topic])
        if indexes[:room]:
            kept[topic] = set(indexes[:room])
        given_up += [(topic, index) for index in indexes[room:]]
        room -= len(indexes[:room])
    return kept, given_up
