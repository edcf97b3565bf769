"""Input of the assignors, and the range assignor (Kafka's `GroupSpec` and `RangeAssignor`, from 3.9 on)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minibroker.coordinators.groups.modern.topics import Partitions
from minibroker_protocol.coordinator_records.consumer_protocol import RangeShares, rank


class MemberSpec(NamedTuple):
    """A member: the ids of the topics that it subscribes to, and its target assignment so far."""

    instance_id: str | None
    topics: Sequence[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group.

    Attributes:
        members: by member id.
        counts: the number of partitions of each subscribed topic.
        homogeneous: whether all members subscribe to the same topics.
    """

    members: Mapping[str, MemberSpec]
    counts: Mapping[bytes, int]
    homogeneous: bool


def assign_ranges(group: GroupSpec) -> dict[str, Partitions]:
    """Give each member consecutive partitions of each topic, whatever it had before.

    Static members come first, by their instance ids, then the others by their member ids. The first members have one
    partition more where a topic cannot be divided evenly.
    """
    order = sorted(group.members, key=lambda member_id: rank(member_id, group.members[member_id].instance_id))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic in group.members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic, member_ids in subscribers.items():
        shares = RangeShares(group.counts[topic], len(member_ids))
        for member_id in member_ids[: group.counts[topic]]:  # The others get no partition.
            assigned[member_id][topic] = frozenset(shares.take())
    if not group.homogeneous:  # Topics are listed in the order of the member's subscription.
        for member_id, partitions in assigned.items():
            topics = group.members[member_id].topics
            assigned[member_id] = {topic: partitions[topic] for topic in topics if topic in partitions}
    return dict(assigned)
