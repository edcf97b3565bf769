"""Consumer groups (KIP-848): heartbeats and descriptions."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
    message,
    since,
    structure,
)


@structure
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """ConsumerGroupHeartbeat (key 68) joins, stays in or leaves a consumer group (KIP-848).

    The coordinator of the group computes the assignment. Null fields, and a rebalance timeout of -1, mean no change.

    Attributes:
        member_id: in version 0 the coordinator generates it when the member joins; from version 1 on the client does.
        member_epoch: 0 to join, -1 to leave, and -2 if a static member leaves temporarily.
        rebalance_timeout_ms: the time that the member has to revoke partitions.
        topic_partitions: the partitions that the member owns.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: NullableArray[String] = None
    subscribed_topic_regex: Annotated[NullableString, since(1)] = None
    server_assignor: NullableString = None
    topic_partitions: NullableArray[TopicPartitions] = None


@structure
class Assignment:
    """All partitions assigned to a member."""

    topic_partitions: Array[TopicPartitions]


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and its assignment, which is null if unchanged."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """ConsumerGroupDescribe (key 69) describes consumer groups and their members (KIP-848)."""

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
    """The current or the target assignment of a member."""

    topic_partitions: Array[DescribedTopicPartitions]


@structure
class Member:
    """A member of the group.

    `member_type` is 0 for the classic protocol, 1 for the consumer protocol, and -1 if unknown.
    """

    member_id: String
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString = None
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: Annotated[Int8, since(1)] = -1


@structure
class DescribedGroup:
    """A group. `authorized_operations` has one bit per Kafka `AclOperation`, if requested."""

    error_code: Int16
    error_message: NullableString = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Array[Member]
    authorized_operations: Int32 = -2147483648


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """The requested groups, each with its own error code."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]
