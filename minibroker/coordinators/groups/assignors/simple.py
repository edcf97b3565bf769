"""The simple assignor: several members share a partition, and all get about the same load (Kafka's `SimpleAssignor`).

If there are P partitions and M members, each partition is assigned to ceil(M / P) members. Members keep their
partitions if possible. The result depends on the order of Java's hash tables, so that order is reproduced here. If
members subscribe to different topics, each topic is divided separately among its subscribers.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter

from minibroker.coordinators.groups.assignors.range import MemberSpec
from minibroker.coordinators.groups.modern.topics import Partitions, freeze_partitions
from minibroker.coordinators.java_order import TopicPartition, hash_order, in_order, string_hash, table_size, uuid_hash


def assign_simple(members: Mapping[str, MemberSpec], ready: Partitions, *, homogeneous: bool) -> dict[str, Partitions]:
    """Assign partitions to members, and return them by member id.

    Args:
        members: The subscribed topics and the previous target assignment of each member.
        ready: The partitions that have a state, and can therefore be assigned.
        homogeneous: Whether all members subscribe to the same topics.
    """
    if not members:
        return {}
    order = hash_order(members, string_hash)
    specs = [members[member_id] for member_id in order]
    if homogeneous:
        return _assign_homogeneous(order, specs, ready)
    return _assign_by_topic(order, specs, ready)


def _assign_homogeneous(order: Sequence[str], specs: Sequence[MemberSpec], ready: Partitions) -> dict[str, Partitions]:
    """Assign all topics together, because all members subscribe to them."""
    topics = specs[0].topics
    if not topics:
        return {}
    partitions = [(topic, index) for topic in topics for index in in_order(ready.get(topic, ()))]
    subscribed = frozenset(topics)
    sharing = _PartitionSharing(range(len(specs)), partitions, _hash)
    for member, spec in enumerate(specs):
        for topic in hash_order(spec.assigned, uuid_hash):
            if topic in subscribed:
                sharing.add_previous(member, ((topic, index) for index in in_order(spec.assigned[topic])))
    sharing.settle()
    return {member_id: sharing.partitions_of(member) for member, member_id in enumerate(order)}


def _assign_by_topic(order: Sequence[str], specs: Sequence[MemberSpec], ready: Partitions) -> dict[str, Partitions]:
    """Assign each topic separately. As in Kafka, topics without subscribers keep their assignment."""
    subscribers: dict[bytes, list[int]] = {}
    for member, spec in enumerate(specs):
        for topic in spec.topics:
            subscribers.setdefault(topic, []).append(member)
    result: list[dict[bytes, frozenset[int]]] = [dict(spec.assigned) for spec in specs]
    for topic in hash_order(subscribers, uuid_hash):
        partitions = [(topic, index) for index in in_order(ready.get(topic, ()))]
        sharing = _PartitionSharing(subscribers[topic], partitions, itemgetter(1))
        for member, spec in enumerate(specs):
            if indexes := spec.assigned.get(topic):
                sharing.add_previous(member, ((topic, index) for index in in_order(indexes)))
        sharing.settle()
        for member, assigned in enumerate(result):
            assigned[topic] = sharing.partitions_of(member).get(topic, frozenset())
    return {member_id: freeze_partitions(result[member]) for member, member_id in enumerate(order)}


def _hash(partition: TopicPartition) -> int:
    """Return the `hashCode` of Kafka 4's `TopicIdPartition`, which is a Java record."""
    topic, index = partition
    return 31 * uuid_hash(topic) + index


class _PartitionSharing:
    """The division of some partitions among members.

    Members are represented by their positions in the order of Java's tables.
    """

    def __init__(
        self,
        subscribers: Sequence[int],
        partitions: Collection[TopicPartition],
        hash_of: Callable[[TopicPartition], int],
    ) -> None:
        self._partitions = partitions
        self._hash_of = hash_of
        self._by_partition: dict[TopicPartition, dict[int, None]] = {}  # The inner dicts serve as ordered sets.
        self._by_member: dict[int, dict[TopicPartition, None]] = {}
        partition_count, subscriber_count = len(partitions), len(subscribers)
        self._sharing = -(-subscriber_count // partition_count) if partition_count else 0
        precise = self._sharing * partition_count / subscriber_count
        self._room = {
            member: math.ceil(precise * (position + 1)) - math.ceil(precise * position)
            for position, member in enumerate(subscribers)
        }

    def add_previous(self, member: int, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions of a member's previous assignment."""
        assigned = self._by_member.setdefault(member, {})
        for partition in partitions:
            self._by_partition.setdefault(partition, {})[member] = None
            assigned[partition] = None

    def partitions_of(self, member: int) -> Partitions:
        """Return the partitions of a member, after `settle`."""
        by_topic: dict[bytes, set[int]] = {}
        for topic, index in self._by_member.get(member, ()):
            by_topic.setdefault(topic, set()).add(index)
        return freeze_partitions(by_topic)

    def settle(self) -> None:
        """Remove surplus partitions from members and surplus members from partitions, then assign what is missing."""
        for member in sorted(self._by_member):
            assigned = self._by_member[member]
            if (surplus := len(assigned) - self._room.get(member, 0)) > 0:
                for partition in hash_order(assigned, self._hash_of)[:surplus]:
                    del assigned[partition], self._by_partition[partition][member]
        for partition in self._list_in_hash_order():
            readers = self._by_partition[partition]
            for member in sorted(readers)[: max(0, len(readers) - self._sharing)]:
                del readers[member], self._by_member[member][partition]
        for partition in self._partitions:
            self._by_partition.setdefault(partition, {})
        self._fill()

    def _list_in_hash_order(self) -> list[TopicPartition]:
        """Return the partitions in the order of a Java hash table created for all of them."""
        wide = 1 << int((len(self._partitions) + 1) / 0.75).bit_length()
        # Java's computeIfAbsent inserts at the head of a bucket, so newer entries come first.
        return hash_order(reversed(self._by_partition), self._hash_of, table_size(len(self._by_partition), wide))

    def _fill(self) -> None:
        """Assign partitions to members with room, in a round-robin fashion.

        A member can be assigned the same partition twice. Kafka counts that, too.
        """
        open_members = [member for member in sorted(self._room) if self._has_room(member)]
        position, has_assigned = 0, False
        for partition in self._list_in_hash_order():
            readers = self._by_partition[partition]
            missing = self._sharing - len(readers)
            while missing > 0 and open_members:
                if position >= len(open_members):
                    if not has_assigned:
                        break
                    position, has_assigned = 0, False
                member = open_members[position]
                position += 1
                if member in readers:
                    continue
                self._by_member.setdefault(member, {})[partition] = None
                missing -= 1
                has_assigned = True
                if not self._has_room(member):
                    position -= 1
                    del open_members[position]
            if not open_members:
                break

    def _has_room(self, member: int) -> bool:
        return len(self._by_member.get(member, ())) < self._room[member]
