"""Input of an assignor (Kafka's `GroupSpec` and `SubscribedTopicDescriber`)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minibroker.coordinators.groups.modern.partitions import Partitions


class MemberSpec(NamedTuple):
    """A member: the ids of the topics that it subscribes to, and what it was to have until now."""

    instance_id: str | None
    topics: Sequence[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group.

    Attributes:
        members: by member id.
        counts: of each subscribed topic, how many partitions it has.
        homogeneous: whether all members subscribe to the same topics.
    """

    members: Mapping[str, MemberSpec]
    counts: Mapping[bytes, int]
    homogeneous: bool
