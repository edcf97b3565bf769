"""The consumer protocol: the metadata and assignments of members of a group of type "consumer"."""

from typing import Annotated

from minibroker_protocol.coordinator_records.versioned import later_versions_only_append
from minibroker_protocol.java_text import utf16_order
from minibroker_protocol.schema import (
    Array,
    Int32,
    NullableBytes,
    NullableString,
    String,
    empty,
    message,
    since,
    structure,
)


@structure
class TopicPartition:
    """The partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@later_versions_only_append
@message(versions="0-3")
class ConsumerProtocolSubscription:
    """A member's subscription and, from version 1 on, the partitions that the member owns (KIP-429).

    `generation_id` is the generation in which the owned partitions were assigned (KIP-792). `rack_id` is the rack
    of the member (KIP-881).
    """

    topics: Array[String]
    user_data: NullableBytes = None
    owned_partitions: Annotated[Array[TopicPartition], since(1)] = empty()
    generation_id: Annotated[Int32, since(2)] = -1
    rack_id: Annotated[NullableString, since(3)] = None


@later_versions_only_append
@message(versions="0-3")
class ConsumerProtocolAssignment:
    """A member's assignment."""

    assigned_partitions: Array[TopicPartition]
    user_data: NullableBytes = None


class RangeSplitter:
    """Splits the partitions of a topic into ranges for its subscribers. The first ranges share any remainder."""

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._size, self._larger = divmod(partitions, subscribers)
        self._next = 0

    def next_range(self) -> range:
        """Return the next range."""
        first = self._next
        self._next += self._size
        if self._larger:
            self._larger -= 1
            self._next += 1
        return range(first, self._next)


def member_sort_key(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """Return a sort key for members: static members first, by instance id, then all others by member id."""
    return instance_id is None, utf16_order(member_id if instance_id is None else instance_id)
