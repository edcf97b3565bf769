"""Range assignor: consecutive partitions of each topic for each member (Kafka's `RangeAssignor`, from 3.9 on).

Static members come first, by their instance ids, then the others by their member ids. What a member had before does
not count.
"""

from minibroker.coordinators.groups.assignors.pace import Pace
from minibroker.coordinators.groups.assignors.spec import GroupSpec
from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker.support.range_assignment import Shares, rank
from minibroker.support.slices import Steps


def assign_ranges(group: GroupSpec) -> Steps[dict[str, Partitions]]:
    """Assign all partitions; the first members have one more where they cannot be shared out evenly."""
    pace = Pace()
    order = sorted(group.members, key=lambda each: rank(each, group.members[each].instance_id))
    subscribers: dict[bytes, int] = {}
    for member in group.members.values():
        for topic in member.topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
            if pace.is_due(1):
                yield
    shares = {topic: Shares(group.counts[topic], number) for topic, number in subscribers.items()}
    assigned: dict[str, Partitions] = {}
    for member_id in order:
        partitions: dict[bytes, frozenset[int]] = {}
        for topic in group.members[member_id].topics:
            indexes = frozenset(shares[topic].take())
            if indexes:
                partitions[topic] = indexes
            if pace.is_due(1 + len(indexes) // 8):
                yield
        assigned[member_id] = partitions
    return assigned
