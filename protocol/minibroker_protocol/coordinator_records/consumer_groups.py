"""The records of consumer groups (KIP-848) in `__consumer_offsets`.

The version of a key determines the type of the record.
"""

from dataclasses import field
from typing import Annotated, Final

from minibroker_protocol.coordinator_records.versioned import record_classes
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
    """The key of a record with a group's epoch."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The epoch of a group and, since Kafka 4.1, a hash of the group's subscribed topics."""

    epoch: Int32
    metadata_hash: Annotated[Int64, tagged(0, "0+")] = 0


@message(versions="4")
class ConsumerGroupPartitionMetadataKey:
    """The key of a record with a group's subscribed topics."""

    group_id: String


@structure
class PartitionMetadata:
    """A partition and the racks of its replicas."""

    partition: Int32
    racks: Array[String]


@structure
class TopicMetadata:
    """A topic to which the members of a group are subscribed."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[PartitionMetadata]


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics on which a group's assignment was based. Since 4.1, Kafka stores a hash of the topics instead."""

    topics: Array[TopicMetadata]


@message(versions="5")
class ConsumerGroupMemberMetadataKey:
    """The key of a record with a member's metadata."""

    group_id: String
    member_id: String


@structure
class ClassicProtocol:
    """An assignment protocol that a classic member supports."""

    name: String
    metadata: Bytes


@structure
class ClassicMemberMetadata:
    """The metadata of a member that uses the classic protocol. The session timeout is in milliseconds."""

    session_timeout_ms: Int32 = 0
    supported_protocols: Array[ClassicProtocol] = empty()


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """The metadata of a member.

    For a member that uses the consumer protocol, `classic_member_metadata` is null. The null must be written
    explicitly, because Kafka reads an omitted field as an empty structure.
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
    """The key of a record with the epoch of a group's target assignment."""

    group_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment, and the time when the assignment was computed.

    `assignment_timestamp` is in milliseconds, or 0 if the time does not matter.
    """

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@structure
class TopicPartition:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="7")
class ConsumerGroupTargetAssignmentMemberKey:
    """The key of a record with a member's target assignment."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@structure
class TopicPartitions:
    """Partitions of a topic that are assigned to a member.

    Since Kafka 4.3, each partition has the epoch in which it was assigned.
    """

    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Annotated[NullableArray[Int32], tagged(0, "0+")] = None


@message(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey:
    """The key of a record with a member's current assignment."""

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


CONSUMER_GROUP_RECORDS: Final = record_classes(globals())
"""All key classes, each with its value class."""
