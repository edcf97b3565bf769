"""The records of consumer groups (KIP-848) in `__consumer_offsets`.

The version of a key determines the type of the record.
"""

from dataclasses import field
from typing import Annotated, Any, Final

from minibroker_protocol.schema import (
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    structure,
    tagged,
)


@message(versions="3")
class ConsumerGroupMetadataKey:
    """The key of a group."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The epoch of a group, and a hash of its subscribed topics, which Kafka has stored since 4.1."""

    epoch: Int32
    metadata_hash: Annotated[Int64, tagged(0, "0+")] = 0


@message(versions="4")
class ConsumerGroupPartitionMetadataKey:
    """The key of a group."""

    group_id: String


@structure
class PartitionMetadata:
    """A partition and the racks of its replicas."""

    partition: Int32
    racks: Array[String]


@structure
class TopicMetadata:
    """A topic to which a group is subscribed."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[PartitionMetadata]


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics on which the group's assignment was based. From 4.1 on, Kafka stores a hash of them instead."""

    topics: Array[TopicMetadata]


@message(versions="5")
class ConsumerGroupMemberMetadataKey:
    """The key of a member of a group."""

    group_id: String
    member_id: String


@structure
class ClassicProtocol:
    """A protocol supported by a classic member."""

    name: String
    metadata: Bytes


@structure
class ClassicMemberMetadata:
    """The metadata of a member that uses the classic protocol. The timeout is in milliseconds."""

    session_timeout_ms: Int32 = 0
    supported_protocols: Array[ClassicProtocol] = field(default_factory=empty)


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """The metadata of a member.

    For a member that uses the consumer protocol, `classic_member_metadata` is null, which must be written explicitly:
    without the field, Kafka reads an empty structure.
    """

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tagged(0, "0+")] = field(
        default_factory=ClassicMemberMetadata
    )


@message(versions="6")
class ConsumerGroupTargetAssignmentMetadataKey:
    """The key of a group."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment, and the time of its computation in milliseconds; 0 if irrelevant."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@structure
class TopicPartition:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="7")
class ConsumerGroupTargetAssignmentMemberKey:
    """The key of a member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@structure
class TopicPartitions:
    """Partitions of a topic, each with the epoch in which it was assigned to the member (since Kafka 4.3)."""

    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Annotated[NullableArray[Int32], tagged(0, "0+")] = None


@message(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey:
    """The key of a member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a member. `state` is the number of a Kafka `MemberState`."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]
    partitions_pending_revocation: Array[TopicPartitions]


CONSUMER_GROUP_RECORDS: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
)
"""All pairs of key and value."""
