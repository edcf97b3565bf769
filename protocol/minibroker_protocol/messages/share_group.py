"""Share groups (KIP-932): heartbeats, descriptions and offsets."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
    message,
    since,
    structure,
)


@message(versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """ShareGroupHeartbeat (key 76) joins, stays in or leaves a share group (KIP-932).

    Null fields mean no change. `member_epoch` is 0 to join and -1 to leave.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: NullableString = None
    subscribed_topic_names: NullableArray[String] = None


@structure
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@structure
class Assignment:
    """All partitions that a member fetches from."""

    topic_partitions: Array[TopicPartitions]


@message(versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """The member's epoch and assignment. The assignment is null if it is unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


@message(versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """ShareGroupDescribe (key 77) describes share groups and their members (KIP-932)."""

    group_ids: Array[String]
    include_authorized_operations: Bool


@structure
class DescribedTopicPartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@structure
class DescribedAssignment:
    """The current assignment of a member."""

    topic_partitions: Array[DescribedTopicPartitions]


@structure
class Member:
    """A member of the group."""

    member_id: String
    rack_id: NullableString = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    assignment: DescribedAssignment


@structure
class DescribedGroup:
    """A group. If requested, `authorized_operations` has one bit for each of Kafka's `AclOperation` values."""

    error_code: Int16
    error_message: NullableString = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Array[Member]
    authorized_operations: Int32 = -2147483648


@message(versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    """The requested groups, each with its own error code."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]


@structure
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: String
    partitions: Array[Int32]


@structure
class DescribeShareGroupOffsetsRequestGroup:
    """A group to describe. If `topics` is null, all offsets of the group are described."""

    group_id: String
    topics: NullableArray[DescribeShareGroupOffsetsRequestTopic] = None


@message(versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    """DescribeShareGroupOffsets (key 90) returns the start offsets and lags of share groups (KIP-932, KIP-1226)."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup]


@structure
class DescribeShareGroupOffsetsResponsePartition:
    """The offsets of one share-partition. `lag` is -1 if unknown."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Annotated[Int64, since(1)] = -1
    error_code: Int16
    error_message: NullableString = None


@structure
class DescribeShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: String
    topic_id: Uuid
    partitions: Array[DescribeShareGroupOffsetsResponsePartition]


@structure
class DescribeShareGroupOffsetsResponseGroup:
    """The offsets of one group, or an error."""

    group_id: String
    topics: Array[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: NullableString = None


@message(versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    """The offsets of each group, in request order."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup]


@structure
class AlterShareGroupOffsetsRequestPartition:
    """The new start offset of one share-partition."""

    partition_index: Int32
    start_offset: Int64


@structure
class AlterShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: String
    partitions: Array[AlterShareGroupOffsetsRequestPartition]


@message(versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    """AlterShareGroupOffsets (key 91) sets start offsets of an empty share group (KIP-932)."""

    group_id: String
    topics: Array[AlterShareGroupOffsetsRequestTopic]


@structure
class AlterShareGroupOffsetsResponsePartition:
    """The outcome for one share-partition."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None


@structure
class AlterShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: String
    topic_id: Uuid
    partitions: Array[AlterShareGroupOffsetsResponsePartition]


@message(versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """One result per partition. The top-level `error_code` applies to the whole group."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    responses: Array[AlterShareGroupOffsetsResponseTopic]


@structure
class DeleteShareGroupOffsetsRequestTopic:
    """A topic whose offsets are deleted."""

    topic_name: String


@message(versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    """DeleteShareGroupOffsets (key 92) deletes the offsets of topics from an empty share group (KIP-932)."""

    group_id: String
    topics: Array[DeleteShareGroupOffsetsRequestTopic]


@structure
class DeleteShareGroupOffsetsResponseTopic:
    """The outcome for one topic."""

    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: NullableString = None


@message(versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    """One result per topic. The top-level `error_code` applies to the whole group."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic]
