"""The uniform assignor (Kafka's `UniformAssignor`).

All members get about the same number of partitions, with as few moves as possible. If all members subscribe
to the same topics, only counts matter (`UniformHomogeneousAssignmentBuilder`).
"""

import heapq
from itertools import groupby, islice
from typing import Final

from minibroker.coordinators.groups.assignors.range import GroupSpec
from minibroker.coordinators.groups.modern.topics import Partitions, freeze_partitions
from minibroker.coordinators.java_order import (
    TopicPartition,
    bucket,
    copied_table_size,
    hash_order,
    in_order,
    partition_hash,
    string_hash,
    table_size,
    topic_id_sort_key,
    uuid_hash,
)
from minibroker_protocol.java_text import utf16_order

_MAX_ROUNDS: Final = 16
_NO_OWNER: Final = -1


class AssignmentByTopic:
    """The computation of one assignment.

    Members are represented by their positions in the order of Kafka's hash table.
    """

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = hash_order(group.members, string_hash)
        self._sizes = [0] * len(self._members)
        self._subscribers: dict[bytes, list[int]] = {}
        for member, member_id in enumerate(self._members):
            for topic in group.members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(member)
        self._owners = {topic: [_NO_OWNER] * group.counts[topic] for topic in self._subscribers}

    def build(self) -> dict[str, Partitions]:
        """Compute the assignment."""
        self._keep()
        topics = self._sort_topics()
        for topic in topics:
            self._assign_unowned(topic)
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        assigned: list[dict[bytes, set[int]]] = [{} for _ in self._members]
        for topic, owners in self._owners.items():
            for index, owner in enumerate(owners):
                assigned[owner].setdefault(topic, set()).add(index)
        return dict(zip(self._members, map(freeze_partitions, assigned), strict=True))

    def _sort_topics(self) -> list[bytes]:
        """Return the topics, sorted by most partitions per subscriber and then by fewest subscribers."""
        alike: dict[tuple[float, int], list[bytes]] = {}
        for topic, subscribers in self._subscribers.items():
            rank = -self._group.counts[topic] / len(subscribers), len(subscribers)
            alike.setdefault(rank, []).append(topic)
        return [topic for rank in sorted(alike) for topic in sorted(alike[rank], key=topic_id_sort_key)]

    def _keep(self) -> None:
        """Keep the previous assignment."""
        for member, member_id in enumerate(self._members):
            spec = self._group.members[member_id]
            topics = frozenset(spec.topics) if spec.assigned else frozenset[bytes]()
            for topic in topics.intersection(spec.assigned):
                owners = self._owners[topic]
                indexes = [index for index in spec.assigned[topic] if index < len(owners)]
                for index in indexes:
                    owners[index] = member
                self._sizes[member] += len(indexes)

    def _assign_unowned(self, topic: bytes) -> None:
        """Assign a topic's unowned partitions to the subscribers with the fewest partitions."""
        owners = self._owners[topic]
        free = [index for index, owner in enumerate(owners) if owner == _NO_OWNER]
        if not free:
            return
        loads = _LoadLevels(self._subscribers[topic], self._sizes)
        for index in free:
            owner = loads.find_receiver()
            owners[index] = owner
            self._sizes[owner] += 1

    def _balance(self, topics: list[bytes]) -> None:
        """Balance the topics in turn, until every topic has been visited since the last move."""
        unmoved = 0
        for visit in range(_MAX_ROUNDS * len(topics)):
            unmoved = 1 if self._balance_topic(topics[visit % len(topics)]) or not visit else unmoved + 1
            if unmoved == len(topics):
                return

    def _balance_topic(self, topic: bytes) -> bool:
        """Even out the partitions of a topic among its subscribers, and return whether any partition moved.

        At the end, no subscriber of the topic has at least two partitions more than another.
        """
        sizes = [self._sizes[member] for member in self._subscribers[topic]]
        if max(sizes) - min(sizes) <= 1:
            return False
        owners = self._owners[topic]
        owned: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            owned.setdefault(owner, []).append(index)
        loads = _LoadLevels(self._subscribers[topic], self._sizes)
        has_moved = False
        while loads.are_unbalanced():
            giver = loads.find_giver()
            while giver is not None and not owned.get(giver):
                loads.skip_giver()
                giver = loads.find_giver()
            if giver is None:
                break
            taker = loads.find_receiver()
            if not loads.are_unbalanced():
                break
            owners[owned[giver].pop()] = taker
            self._sizes[giver] -= 1
            self._sizes[taker] += 1
            has_moved = True
        return has_moved


class _LoadLevels:
    """The subscribers of a topic, ordered by their number of partitions, with two levels that approach each other.

    Members at the lower level take one partition each, and then the level rises by one. Members at the upper level give
    one partition each, and then the level falls by one.

    Args:
        members: The subscribers.
        sizes: The number of partitions of each member of the group, in all topics. The caller keeps it up to date.
    """

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        # The sort is stable, so members of equal size keep their order.
        self._order = sorted(members, key=sizes.__getitem__)
        self._low = sizes[self._order[0]] - 1
        self._high = sizes[self._order[-1]] + 1
        self._bottom_end: int = 0  # Members before this index are at the lower level.
        self._takers: int = 0  # The index of the next member that takes a partition.
        self._top_begin = self._top_end = len(self._order)  # Members between these indexes are at the upper level.
        self._givers = 0  # The number of members at the upper level that can still give a partition.

    def are_unbalanced(self) -> bool:
        """Return whether the levels are more than one apart."""
        return self._high - self._low > 1

    def find_receiver(self) -> int:
        """Return the next member that takes a partition."""
        if self._takers == self._bottom_end:
            self._low += 1
            while self._bottom_end < len(self._order) and self._size_at(self._bottom_end) == self._low:
                self._bottom_end += 1
            self._takers = 0
        self._takers += 1
        return self._order[self._takers - 1]

    def find_giver(self) -> int | None:
        """Return the next member that gives a partition, or None if no member is left."""
        if not self._givers:
            if self._top_begin == self._top_end and self._top_begin:
                self._high = self._size_at(self._top_begin - 1)
            else:
                self._high -= 1
            while self._top_begin and self._size_at(self._top_begin - 1) == self._high:
                self._top_begin -= 1
            self._givers = self._top_end - self._top_begin
            if not self._givers:
                return None
        self._givers -= 1
        return self._order[self._top_begin + self._givers]

    def skip_giver(self) -> None:
        """Skip the current giver, because it has no partition of the topic."""
        index = self._top_begin + self._givers
        self._top_end -= 1
        self._order[index], self._order[self._top_end] = self._order[self._top_end], self._order[index]

    def _size_at(self, index: int) -> int:
        return self._sizes[self._order[index]]


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
