"""The uniform assignment of a group whose members subscribe to different topics.

Kafka's `UniformHeterogeneousAssignmentBuilder` of 3.9: members keep what they have, what is left goes to whoever has
least, and then partitions move from those with more to those with less until no move helps. There Kafka gives up
(UNKNOWN_SERVER_ERROR) where a member would give and take partitions of one topic to and from another one.
"""

from minibroker.groups.consumer.assignors.java_order import (
    TopicPartition,
    hash_order,
    partition_hash,
    string_hash,
    uuid_hash,
)
from minibroker.groups.consumer.assignors.spec import GroupSpec
from minibroker.groups.consumer.partitions import Partitions, frozen


class MixedAssignment:
    """One assignment in the making."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = hash_order(group.members, string_hash)
        self._subscribers: dict[bytes, list[str]] = {}
        for member_id in self._members:
            for topic in group.members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(member_id)
        self._topics = hash_order(self._subscribers, uuid_hash)
        everything = [(topic, index) for topic in self._topics for index in range(group.counts[topic])]
        self._sorted = sorted(hash_order(everything, partition_hash), key=self._rank)
        self._owners: dict[TopicPartition, str] = {}
        self._assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self._members}
        self._sizes = dict.fromkeys(self._members, 0)
        self._most = {
            member_id: sum(group.counts[topic] for topic in member.topics)
            for member_id, member in group.members.items()
        }
        self._open = {member_id for member_id in self._members if self._has_room(member_id)}

    def build(self) -> dict[str, Partitions]:
        """The assignment."""
        for member_id in self._members:
            member = self._group.members[member_id]
            for topic, indexes in member.assigned.items():
                if topic in member.topics:
                    for index in indexes:
                        if index < self._group.counts[topic]:
                            self._give((topic, index), member_id)
        for partition in self._sorted:
            if partition not in self._owners:
                candidates = filter(self._has_room, self._subscribers[partition[0]])
                self._give(partition, min(candidates, key=self._filled))
        self._balance()
        return {member_id: frozen(partitions) for member_id, partitions in self._assigned.items()}

    def _rank(self, partition: TopicPartition) -> tuple[float, int, int]:
        """The topics with the most partitions for each subscriber come first."""
        topic, index = partition
        subscribers = len(self._subscribers[topic])
        return -self._group.counts[topic] / subscribers, subscribers, index

    def _filled(self, member_id: str) -> tuple[int, str]:
        return self._sizes[member_id], member_id

    def _has_room(self, member_id: str) -> bool:
        return self._sizes[member_id] < self._most[member_id]

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        topic, index = partition
        self._assigned[member_id].setdefault(topic, set()).add(index)
        self._owners[partition] = member_id
        self._resize(member_id, 1)

    def _take(self, partition: TopicPartition, member_id: str) -> None:
        topic, index = partition
        indexes = self._assigned[member_id][topic]
        indexes.discard(index)
        if not indexes:
            del self._assigned[member_id][topic]
        self._resize(member_id, -1)

    def _resize(self, member_id: str, by: int) -> None:
        self._sizes[member_id] += by
        self._open.discard(member_id)
        if self._has_room(member_id):
            self._open.add(member_id)

    # Balance

    def _balance(self) -> None:
        """Move each partition once at most, until nobody has two more than another one who could take one of them."""
        self._open = {member_id for member_id in self._open if self._may_change(member_id)}
        movable = [each for each in self._sorted if len(self._subscribers[each[0]]) > 1]
        has_moved = True
        while has_moved:
            was_moved = False
            stayed: list[TopicPartition] = []
            for partition in movable:
                if was_moved and self._is_balanced():
                    return
                owner = self._owners[partition]
                least = min(self._sizes[each] for each in self._subscribers[partition[0]])
                was_moved = self._sizes[owner] > least + 1
                if was_moved:
                    self._move(partition, owner)
                else:
                    stayed.append(partition)
            has_moved = len(stayed) < len(movable)
            movable = stayed

    def _may_change(self, member_id: str) -> bool:
        """Could it have more, or something that another one could have, too?"""
        has = self._assigned[member_id]
        return self._has_room(member_id) or any(len(self._subscribers[topic]) > 1 for topic in has)

    def _is_balanced(self) -> bool:
        if not self._open:
            return True
        sizes = [self._sizes[each] for each in self._open]
        if min(sizes) >= max(sizes) - 1:
            return True
        return not any(
            self._sizes[self._owners[topic, index]] > self._sizes[member_id] + 1
            for member_id in self._open
            for topic in self._group.members[member_id].topics
            for index in range(self._group.counts[topic])
            if self._owners[topic, index] != member_id
        )

    def _move(self, partition: TopicPartition, owner: str) -> None:
        """Give a partition to whoever has least of its topic's subscribers."""
        candidates = self._open.intersection(self._subscribers[partition[0]])
        new = min(candidates, key=self._filled)
        self._take(partition, owner)
        self._give(partition, new)
