"""The uniform assignor (Kafka's `UniformAssignor`).

All members get about the same number of partitions, with as few moves as possible. If all members subscribe
to the same topics, only counts matter (`UniformHomogeneousAssignmentBuilder`).
"""

from itertools import islice

from minibroker.coordinators.groups.assignors.range import GroupSpec
from minibroker.coordinators.groups.assignors.uniform_by_topic import AssignmentByTopic
from minibroker.coordinators.groups.assignors.uniform_mixed import MixedAssignment
from minibroker.coordinators.groups.modern.topics import Partitions, freeze_partitions
from minibroker.coordinators.java_order import (
    TopicPartition,
    copied_table_size,
    hash_order,
    in_order,
    string_hash,
    uuid_hash,
)


def assign_uniform(group: GroupSpec, *, since_4_0: bool = True) -> dict[str, Partitions]:
    """Assign all partitions of all subscribed topics, as in Kafka 4, or as in Kafka 3.9 if `since_4_0` is false."""
    if not group.members:
        return {}
    if group.homogeneous:
        return _assign_homogeneous(group, since_4_0=since_4_0)
    return (AssignmentByTopic if since_4_0 else MixedAssignment)(group).build()


def _assign_homogeneous(group: GroupSpec, *, since_4_0: bool) -> dict[str, Partitions]:
    """Assign topics to which all members subscribe.

    If some members must have one more partition than others, the first members get it. Since Kafka 4.0, members that
    already have one more come first.
    """
    members = hash_order(group.members, string_hash)
    subscribed = group.members[members[0]].topics
    topics = hash_order(subscribed, uuid_hash, copied_table_size(len(subscribed)))
    if not topics:
        return {}
    free = _find_unowned(group, topics)
    subscribed_topics = set(topics)
    quota, surplus = divmod(sum(group.counts[topic] for topic in topics), len(members))
    assigned: dict[str, dict[bytes, set[int]]] = {}
    missing_counts: dict[str, int] = {}
    for index, member_id in enumerate(members):
        has_surplus = surplus > 0
        room = quota + has_surplus
        kept, released = _keep(group.members[member_id].assigned, subscribed_topics, room)
        assigned[member_id] = kept
        free += released
        kept_count = sum(map(len, kept.values()))
        if since_4_0 and has_surplus and room > kept_count and len(members) - index > surplus:
            room -= 1
            has_surplus = False
        surplus -= has_surplus
        if room > kept_count:
            missing_counts[member_id] = room - kept_count
    remaining = iter(free)
    for member_id, missing in missing_counts.items():
        for topic, index in islice(remaining, missing):
            assigned[member_id].setdefault(topic, set()).add(index)
    return {member_id: freeze_partitions(partitions) for member_id, partitions in assigned.items()}


def _find_unowned(group: GroupSpec, topics: list[bytes]) -> list[TopicPartition]:
    """Return the partitions of topics that have no owner yet."""
    owned: dict[bytes, set[int]] = {}
    for member in group.members.values():
        for topic, indexes in member.assigned.items():
            owned.setdefault(topic, set()).update(indexes)
    return [
        (topic, index)
        for topic in topics
        for index in range(group.counts[topic])
        if index not in owned.get(topic, frozenset[int]())
    ]


def _keep(previous: Partitions, topics: set[bytes], room: int) -> tuple[dict[bytes, set[int]], list[TopicPartition]]:
    """Return the partitions that a member keeps, and the partitions that it releases."""
    kept: dict[bytes, set[int]] = {}
    released: list[TopicPartition] = []
    for topic in hash_order(previous, uuid_hash):
        if topic not in topics:
            continue
        indexes = in_order(previous[topic])
        if indexes[:room]:
            kept[topic] = set(indexes[:room])
        released += [(topic, index) for index in indexes[room:]]
        room -= len(indexes[:room])
    return kept, released
