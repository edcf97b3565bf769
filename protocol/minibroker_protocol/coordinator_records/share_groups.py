"""The records of share groups (KIP-932) in `__consumer_offsets`.

The version of a key says what kind of record it is.
"""

from typing import Annotated, Any, Final

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    message,
    structure,
    tagged,
)


@message(versions="10")
class ShareGroupMemberMetadataKey:
    """A member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """The metadata that a member has sent of itself."""

    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]


@message(versions="11")
class ShareGroupMetadataKey:
    """A group."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """Its epoch, and a hash of the topics that its members subscribe to."""

    epoch: Int32
    metadata_hash: Int64


@message(versions="12")
class ShareGroupTargetAssignmentMetadataKey:
    """A group."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of its assignment, and when that was made in ms since 1970; 0 if that is not known."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@structure
class TopicPartition:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="13")
class ShareGroupTargetAssignmentMemberKey:
    """A member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@structure
class TopicPartitions:
    """Partitions of a topic; Kafka has two names for it."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="14")
class ShareGroupCurrentMemberAssignmentKey:
    """A member of a group."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """The current assignment of a member; `state` is the number of Kafka's `MemberState`."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]


@message(versions="15")
class ShareGroupStatePartitionMetadataKey:
    """A group."""

    group_id: String


@structure
class TopicPartitionsInfo:
    """Partitions of a topic, with its name."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@structure
class TopicInfo:
    """A topic."""

    topic_id: Uuid
    topic_name: String


@message(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The share-partitions of a group: which have a state, get one, or lose it."""

    initializing_topics: Array[TopicPartitionsInfo]
    initialized_topics: Array[TopicPartitionsInfo]
    deleting_topics: Array[TopicInfo]


SHARE_GROUP_RECORDS: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
"""Keys with their values."""
