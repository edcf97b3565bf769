"""ConsumerGroupDescribe (key 69): groups that the coordinator assigns for, with their members (KIP-848)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
    since,
    structure,
)


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
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
    """The current or the target assignment of a member."""

    topic_partitions: Array[TopicPartitions]


@structure
class Member:
    """A member; `member_type` is 0 for one of the classic protocol, 1 for one of the consumer protocol, else -1."""

    member_id: String
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[Int8, since(1)] = -1


@structure
class DescribedGroup:
    """A group; `authorized_operations` has a bit for each of Kafka's `AclOperation`, if that was asked for."""

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
    """The groups, each with an outcome of its own."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]
