"""The uniform assignment of a group whose members subscribe to different topics, as before Kafka 4.0.

In Kafka 3.9's `UniformHeterogeneousAssignmentBuilder`, members first keep their partitions, and the remaining
partitions go to the members with the fewest. Then partitions move from members with more partitions to members with
fewer, until no move helps. During this phase, Kafka fails (UNKNOWN_SERVER_ERROR) if two members would exchange
partitions of the same topic.

After each move, Kafka examines all members and partitions to see whether the assignment is balanced. Here one topic
with a helpful move is remembered, and other topics are examined only after this topic has no such move left.
"""

import heapq
from itertools import groupby

from minibroker.coordinators.groups.assignors.range import GroupSpec
from minibroker.coordinators.groups.modern.topics import Partitions, freeze_partitions
from minibroker.coordinators.java_order import (
    TopicPartition,
    bucket,
    hash_order,
    partition_hash,
    string_hash,
    table_size,
    uuid_hash,
)
from minibroker_protocol.java_text import utf16_order


class MixedAssignment:
    """The computation of one assignment."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = hash_order(group.members, string_hash)
        self._subscribers: dict[bytes, list[str]] = {}
        self._most: dict[str, int] = {}
        for member_id in self._members:
            topics = group.members[member_id].topics
            for topic in topics:
                self._subscribers.setdefault(topic, []).append(member_id)
            self._most[member_id] = sum(group.counts[topic] for topic in topics)
        self._topics = hash_order(self._subscribers, uuid_hash)
        self._owners: dict[TopicPartition, str] = {}
        # The number of partitions that each member owns, by topic.
        self._owned: dict[bytes, dict[str, int]] = {topic: {} for topic in self._topics}
        self._assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self._members}
        self._sizes = dict.fromkeys(self._members, 0)
        self._open = {member_id for member_id in self._members if self._has_room(member_id)}
        # The size of each topic's smallest subscriber. Each move clears this cache.
        self._smallest_sizes: dict[bytes, int] = {}
        self._unbalanced: bytes | None = None

    def build(self) -> dict[str, Partitions]:
        """Compute the assignment."""
        ordered = self._sort_partitions()
        self._keep()
        self._assign_unowned(ordered)
        self._balance([partition for partition in ordered if len(self._subscribers[partition[0]]) > 1])
        return {member_id: freeze_partitions(partitions) for member_id, partitions in self._assigned.items()}

    def _sort_partitions(self) -> list[TopicPartition]:
        """Return all partitions, sorted by the rank of their topic and then by index.

        Topics with the most partitions per subscriber come first. Ties are broken by the order of Kafka's hash table.
        """
        counts = self._group.counts
        table = table_size(sum(counts[topic] for topic in self._topics))
        ordered: list[TopicPartition] = []
        for _, group in groupby(sorted(self._topics, key=self._topic_sort_key), key=self._topic_sort_key):
            topics = list(group)
            for index in range(max(counts[topic] for topic in topics)):
                alike = [(topic, index) for topic in topics if index < counts[topic]]
                if len(alike) > 1:
                    alike.sort(key=lambda partition: bucket(partition_hash(partition), table))
                ordered += alike
        return ordered

    def _topic_sort_key(self, topic: bytes) -> tuple[float, int]:
        subscribers = len(self._subscribers[topic])
        return -self._group.counts[topic] / subscribers, subscribers

    def _keep(self) -> None:
        """Keep the previous assignment."""
        counts = self._group.counts
        for member_id in self._members:
            member = self._group.members[member_id]
            topics = frozenset(member.topics) if member.assigned else frozenset[bytes]()
            for topic, indexes in member.assigned.items():
                if topic in topics:
                    for index in indexes:
                        if index < counts[topic]:
                            self._assign((topic, index), member_id)

    def _assign_unowned(self, ordered: list[TopicPartition]) -> None:
        """Assign each unowned partition to the least loaded subscriber that is below its maximum."""
        heaps: dict[bytes, list[tuple[int, bytes, str]]] = {}
        for partition in ordered:
            if partition in self._owners:
                continue
            topic = partition[0]
            if (heap := heaps.get(topic)) is None:
                heap = heaps[topic] = [self._member_sort_key(subscriber) for subscriber in self._subscribers[topic]]
                heapq.heapify(heap)
            while True:  # Sizes only grow in this phase, so the size in a heap entry is either current or too small.
                size, _, member_id = heap[0]
                current_size = self._sizes[member_id]
                if current_size >= self._most[member_id]:
                    heapq.heappop(heap)
                elif current_size > size:
                    heapq.heapreplace(heap, self._member_sort_key(member_id))
                else:
                    break
            self._assign(partition, member_id)

    def _member_sort_key(self, member_id: str) -> tuple[int, bytes, str]:
        return self._sizes[member_id], utf16_order(member_id), member_id

    def _has_room(self, member_id: str) -> bool:
        return self._sizes[member_id] < self._most[member_id]

    def _assign(self, partition: TopicPartition, member_id: str) -> None:
        topic, index = partition
        self._assigned[member_id].setdefault(topic, set()).add(index)
        self._owners[partition] = member_id
        owned = self._owned[topic]
        owned[member_id] = owned.get(member_id, 0) + 1
        self._resize(member_id, 1)

    def _unassign(self, partition: TopicPartition, member_id: str) -> None:
        topic, index = partition
        indexes = self._assigned[member_id][topic]
        indexes.discard(index)
        if not indexes:
            del self._assigned[member_id][topic]
        owned = self._owned[topic]
        owned[member_id] -= 1
        if not owned[member_id]:
            del owned[member_id]
        self._resize(member_id, -1)

    def _resize(self, member_id: str, by: int) -> None:
        self._sizes[member_id] += by
        if self._has_room(member_id):
            self._open.add(member_id)
        else:
            self._open.discard(member_id)

    def _balance(self, movable: list[TopicPartition]) -> None:
        """Move partitions to subscribers that have at least two fewer, until no such move is left.

        Each partition moves at most once.
        """
        has_moved = True
        while has_moved:
            was_moved = False
            stayed: list[TopicPartition] = []
            for partition in movable:
                if was_moved and self._is_balanced():
                    return
                owner = self._owners[partition]
                if (smallest_size := self._smallest_sizes.get(partition[0])) is None:
                    smallest_size = self._smallest_sizes[partition[0]] = min(
                        map(self._sizes.__getitem__, self._subscribers[partition[0]])
                    )
                was_moved = self._sizes[owner] > smallest_size + 1
                if was_moved:
                    self._move(partition, owner)
                else:
                    stayed.append(partition)
            has_moved = len(stayed) < len(movable)
            movable = stayed

    def _is_balanced(self) -> bool:
        if not self._open:
            return True
        sizes = [self._sizes[member_id] for member_id in self._open]
        if min(sizes) >= max(sizes) - 1:
            return True
        if self._unbalanced is not None and self._may_move(self._unbalanced):
            return False
        for topic in self._topics:
            if self._may_move(topic):
                self._unbalanced = topic
                return False
        return True

    def _may_move(self, topic: bytes) -> bool:
        """Return whether moving one of the topic's partitions would help.

        It helps if an owner has at least two partitions more than a subscriber that has room.
        """
        sizes = self._sizes
        fewest = min((sizes[member] for member in self._subscribers[topic] if member in self._open), default=None)
        return fewest is not None and max(map(sizes.__getitem__, self._owned[topic]), default=0) > fewest + 1

    def _move(self, partition: TopicPartition, owner: str) -> None:
        """Move a partition to the subscriber of its topic with the fewest partitions."""
        candidates = self._open.intersection(self._subscribers[partition[0]])
        new_owner = min(candidates, key=self._member_sort_key)
        self._unassign(partition, owner)
        self._assign(partition, new_owner)
        self._smallest_sizes.clear()
