"""The records of groups of the newer consumer protocol (KIP-848) in `__consumer_offsets`.

The version of a key says what kind of record it is.
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
    """A group."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """Its epoch, and a hash of the topics that its members subscribe to, which Kafka has since 4.1."""

    epoch: Int32
    metadata_hash: Annotated[Int64, tagged(0, "0+")] = 0


@message(versions="4")
class ConsumerGroupPartitionMetadataKey:
    """A group."""

    group_id: String


@structure
class PartitionMetadata:
    """A partition and the racks that it is on."""

    partition: Int32
    racks: Array[String]


@structure
class TopicMetadata:
    """A topic that a group is subscribed to."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[PartitionMetadata]


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics as they were when the group's assignment was made; Kafka has a hash of them instead since 4.1."""

    topics: Array[TopicMetadata]


@message(versions="5")
class ConsumerGroupMemberMetadataKey:
    """A member of a group."""

    group_id: String
    member_id: String


@structure
class ClassicProtocol:
    """A protocol of the classic kind that a member supports."""

    name: String
    metadata: Bytes


@structure
class ClassicMemberMetadata:
    """The metadata of a member that speaks the classic protocol; the timeout is in ms."""

    session_timeout_ms: Int32 = 0
    supported_protocols: Array[ClassicProtocol] = field(default_factory=empty)


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """The metadata that a member has sent of itself.

    `classic_member_metadata` is null for a member of the consumer protocol. That has to be written: without the field,
    Kafka reads an empty structure.
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
    """A group."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of its assignment, and the time in ms at which it was made; 0 if that does not matter."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@structure
class TopicPartition:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="7")
class ConsumerGroupTargetAssignmentMemberKey:
    """A member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@structure
class TopicPartitions:
    """Partitions of a topic, and for each the epoch of the assignment that gave it to the member (since Kafka 4.3)."""

    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Annotated[NullableArray[Int32], tagged(0, "0+")] = None


@message(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey:
    """A member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a member; `state` is the number of Kafka's `MemberState`."""

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
"""Keys with their values."""
