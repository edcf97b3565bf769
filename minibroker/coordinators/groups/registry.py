"""The types of groups, and the groups of a broker by id and by partition of `__consumer_offsets`."""

from collections.abc import Collection

from minibroker.coordinators.coordinator_log import CoordinatorLog
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup

AnyModernGroup = ConsumerGroup | ShareGroup | StreamsGroup
"""A group whose coordinator assigns the partitions."""
AnyGroup = Group | AnyModernGroup
"""A group of any type. In a classic group, the members assign the partitions."""


class GroupRegistry:
    """The groups in loaded partitions, by id and by partition, and their open transactions.

    The cost of an operation on one partition depends only on the number of its own groups.

    Attributes:
        by_id: All groups, in the order in which they were added.
    """

    __slots__ = ("_by_partition", "_log", "_open_groups", "_partition_count", "by_id")

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log
        self._partition_count = log.partition_count
        self.by_id: dict[str, AnyGroup] = {}
        self._by_partition: dict[int, dict[str, AnyGroup]] = {}
        # Ids of the groups for which a producer has pending offsets, by partition and producer id.
        self._open_groups: dict[int, dict[int, set[str]]] = {}

    def add(self, group: AnyGroup) -> None:
        """Add a group, replacing any other group with the same id."""
        group_id = group.group_id
        if self.by_id.get(group_id) is not group:
            self._sort_again()
            self.by_id[group_id] = group
            self._sort(group)

    def discard(self, group: AnyGroup) -> None:
        """Remove a group, unless another group has replaced it."""
        group_id = group.group_id
        if self.by_id.get(group_id) is group:
            self._sort_again()
            del self.by_id[group_id]
            del self._by_partition[self._log.partition_of(group_id)][group_id]

    def in_partition(self, partition: int) -> Collection[AnyGroup]:
        """Return the groups in a partition as a copy, so that the registry can change during an iteration."""
        self._sort_again()
        return tuple(self._by_partition.get(partition, {}).values())

    def take(self, partition: int) -> Collection[AnyGroup]:
        """Remove a partition's groups and open transactions, and return the groups."""
        groups = self.in_partition(partition)
        self._by_partition.pop(partition, None)
        self._open_groups.pop(partition, None)
        for group in groups:
            del self.by_id[group.group_id]
        return groups

    def take_all(self) -> Collection[AnyGroup]:
        """Remove all groups and open transactions, and return the groups."""
        groups = tuple(self.by_id.values())
        self.by_id.clear()
        self._by_partition.clear()
        self._open_groups.clear()
        return groups

    def open(self, producer_id: int, group_id: str) -> None:
        """Record that the producer's open transaction has offsets for a group."""
        producers = self._open_groups.setdefault(self._log.partition_of(group_id), {})
        producers.setdefault(producer_id, set()).add(group_id)

    def close(self, producer_id: int, partition: int) -> list[AnyGroup]:
        """End the producer's transaction in a partition, and return the groups that have offsets in the transaction."""
        producers = self._open_groups.get(partition)
        closed = None if producers is None else producers.pop(producer_id, None)
        return [self.by_id[group_id] for group_id in closed or () if group_id in self.by_id]

    def _sort_again(self) -> None:
        """Sort the groups into partitions again if the topic was created with an unexpected partition count."""
        count = self._log.partition_count
        if count == self._partition_count:
            return
        self._partition_count = count
        self._by_partition.clear()
        for group in self.by_id.values():
            self._sort(group)

    def _sort(self, group: AnyGroup) -> None:
        self._by_partition.setdefault(self._log.partition_of(group.group_id), {})[group.group_id] = group
