"""The input of the assignors, and the range assignor (Kafka's `GroupSpec` and `RangeAssignor`, since 3.9)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, TopicMetadata
from minibroker_protocol.coordinator_records.consumer_protocol import RangeSplitter, member_sort_key


class MemberSpec(NamedTuple):
    """The ids of a member's subscribed topics, and its previous target assignment."""

    instance_id: str | None
    topics: Sequence[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """The members and topics of a group.

    Attributes:
        members: The members by member id.
        counts: The partition count of each subscribed topic.
        homogeneous: Whether all members subscribe to the same topics.
    """

    members: Mapping[str, MemberSpec]
    counts: Mapping[bytes, int]
    homogeneous: bool


def member_specs(
    members: Mapping[str, Any],
    topics_of: Callable[[Any], frozenset[str]],
    topics: Mapping[str, TopicMetadata],
    target: Mapping[str, Partitions],
) -> tuple[dict[str, MemberSpec], bool]:
    """Return the members of a group for an assignor, and whether all subscribe to the same topics.

    Missing topics count, as in Kafka: a member that subscribes only to them differs from the others.
    """
    ids: dict[frozenset[str], list[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        names = topics_of(member)
        if names not in ids:
            ids[names] = [topics[name].topic_id for name in sorted(names) if name in topics]
        specs[member_id] = MemberSpec(member.instance_id, ids[names], target.get(member_id, NOTHING))
    return specs, len(ids) == 1


def assign_ranges(group: GroupSpec) -> dict[str, Partitions]:
    """Assign consecutive partitions of each topic to each member, regardless of the previous assignment.

    Static members come first, ordered by instance id, and then the others by member id. If a topic cannot be divided
    evenly, the first members get one more partition.
    """
    order = sorted(
        group.members, key=lambda member_id: member_sort_key(member_id, group.members[member_id].instance_id)
    )
    subscribers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic in group.members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic, member_ids in subscribers.items():
        shares = RangeSplitter(group.counts[topic], len(member_ids))
        for member_id in member_ids[
            : group.counts[topic]
        ]:  # If there are fewer partitions than members, the last members get none.
            assigned[member_id][topic] = frozenset(shares.next_range())
    if not group.homogeneous:  # List topics in the order of the member's subscription.
        for member_id, partitions in assigned.items():
            topics = group.members[member_id].topics
            assigned[member_id] = {topic: partitions[topic] for topic in topics if topic in partitions}
    return dict(assigned)
