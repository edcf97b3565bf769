"""ShareGroupDescribe (key 77): share groups with their members (KIP-932)."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
    structure,
)


@message(versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """The groups to describe."""

    group_ids: Array[String]
    include_authorized_operations: Bool


@structure
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@structure
class Assignment:
    """The current assignment of a member."""

    topic_partitions: Array[TopicPartitions]


@structure
class Member:
    """A member of the group."""

    member_id: String
    rack_id: NullableString = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    assignment: Assignment


@structure
class DescribedGroup:
    """A group; `authorized_operations` has a bit for each of Kafka's `AclOperation`, if the request asked for it."""

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
    """The groups, each with an error of its own."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]
