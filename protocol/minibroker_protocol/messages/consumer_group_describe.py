"""ConsumerGroupDescribe (key 69): TODO."""

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
    """TODO."""

    group_ids: Array[String]
    include_authorized_operations: Bool


@structure
class TopicPartitions:
    """TODO."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@structure
class Assignment:
    """TODO."""

    topic_partitions: Array[TopicPartitions]


@structure
class Member:
    """TODO."""

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
    """TODO."""

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
    """TODO."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]
