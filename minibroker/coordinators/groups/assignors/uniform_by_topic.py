"""The uniform assignment of a group whose members subscribe to different topics, as since Kafka 4.0.

In Kafka's `UniformHeterogeneousAssignmentBuilder`, members first keep their partitions. Then one topic after
another is balanced, beginning with the topics that have the most partitions per subscriber. Unowned partitions go to
the subscribers with the fewest partitions, and then partitions move from subscribers with more partitions to
subscribers with fewer. This is repeated for all topics until a whole round moves nothing, at most 16 times.
"""

from typing import Final

from minibroker.coordinators.groups.assignors.range import GroupSpec
from minibroker.coordinators.groups.modern.topics import Partitions, freeze_partitions
from minibroker.coordinators.java_order import hash_order, string_hash, topic_id_sort_key

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
