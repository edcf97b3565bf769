"""Translation between the classic protocol and the consumer protocol, for classic members."""

from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.modern.partitions import Partitions, frozen
from minibroker_protocol.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from minibroker_protocol.coordinator_records.versioned import decode_versioned, encode_versioned, version_of
from minibroker_protocol.schema import schema_of


def subscription_in(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription of a member. DecodeError."""
    return decode_versioned(ConsumerProtocolSubscription, metadata)


def assignment_in(assignment: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment of a member; it has no partitions before its first SyncGroup. DecodeError."""
    if not assignment:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return decode_versioned(ConsumerProtocolAssignment, assignment)


def with_ids(named: list[TopicPartition], topics: Topics) -> Partitions:
    """Partitions by the ids of their topics, as far as these exist."""
    found: dict[bytes, set[int]] = {}
    for each in named:
        topic = topics.get(each.topic)
        if topic is not None:
            found.setdefault(topic.id, set()).update(each.partitions)
    return frozen(found)


def assignment_of(partitions: Partitions, topics: Topics, *, like: bytes) -> bytes:
    """An assignment, in the version of a member's subscription. DecodeError where that has none."""
    named = [
        TopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := topics.with_id(topic_id)) is not None
    ]
    known = schema_of(ConsumerProtocolAssignment).versions
    version = max(known.first, min(known.last, version_of(like, "a subscription")))
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=named), version)
