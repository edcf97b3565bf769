"""The records of share groups in `__consumer_offsets`, and the states of share-partitions in `__share_group_state`.

The version of a key determines the type of the record (KIP-932, KIP-1226). In `__share_group_state`, version 0 is a
snapshot and version 1 an update. A tombstone has the key of a snapshot.
"""

from typing import Annotated, Any, Final

from minibroker_protocol.coordinator_records.versioned import record_classes
from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    structure,
    tagged,
)


@message(versions="10")
class ShareGroupMemberMetadataKey:
    """The key of a record with a member's metadata."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """The metadata of a member."""

    rack_id: NullableString
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]


@message(versions="11")
class ShareGroupMetadataKey:
    """The key of a record with a group's epoch."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The epoch of a group, and a hash of the group's subscribed topics."""

    epoch: Int32
    metadata_hash: Int64


@message(versions="12")
class ShareGroupTargetAssignmentMetadataKey:
    """The key of a record with the epoch of a group's target assignment."""

    group_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment, and the time when the assignment was computed.

    `assignment_timestamp` is in milliseconds since 1970, or 0 if the time is unknown.
    """

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@structure
class TopicPartition:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="13")
class ShareGroupTargetAssignmentMemberKey:
    """The key of a record with a member's target assignment."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@structure
class TopicPartitions:
    """Partitions of a topic. Kafka declares this structure twice; the other name is `TopicPartition`."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="14")
class ShareGroupCurrentMemberAssignmentKey:
    """The key of a record with a member's current assignment."""

    group_id: String
    member_id: String


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """The current assignment of a member. `state` is the number of a Kafka `MemberState`."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]


@message(versions="15")
class ShareGroupStatePartitionMetadataKey:
    """The key of a record with a group's share-partitions."""

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
    """The share-partitions of a group that are being initialized or are initialized, and the topics being deleted."""

    initializing_topics: Array[TopicPartitionsInfo]
    initialized_topics: Array[TopicPartitionsInfo]
    deleting_topics: Array[TopicInfo]


SHARE_GROUP_RECORDS: Final = record_classes(globals())
"""All key classes, each with its value class."""


@message(versions="0")
class ShareSnapshotKey:
    """The key of a snapshot: a record with the complete state of a share-partition."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@structure
class StateBatch:
    """A range of offsets with the same delivery state; `last_offset` is inclusive.

    `delivery_state` is 0 for available records, 2 for acknowledged records and 4 for archived records.
    """

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message(versions="0", flexible="0+")
class ShareSnapshotValue:
    """The complete state of a share-partition. Timestamps are in milliseconds.

    `delivery_complete_count` is the number of offsets at or after `start_offset` whose delivery is complete.
    """

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tagged(0, "0+")] = -1
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: Array[StateBatch] = empty()


@message(versions="1")
class ShareUpdateKey:
    """The share-partition whose state has changed."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(versions="0", flexible="0+")
class ShareUpdateValue:
    """The changes to a share-partition since the snapshot with the same epoch.

    `start_offset` is -1 if the start offset is unchanged.
    """

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tagged(0, "0+")] = -1
    state_batches: Array[StateBatch] = empty()


SHARE_STATE_RECORDS: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (ShareSnapshotKey, ShareSnapshotValue),
    (ShareUpdateKey, ShareUpdateValue),
)
"""All key classes, each with its value class."""
