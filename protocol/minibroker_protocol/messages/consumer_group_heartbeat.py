"""ConsumerGroupHeartbeat (key 68): join a group that the coordinator assigns for, stay in it, leave it (KIP-848)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
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
    """A member's heartbeat; null, and a rebalance timeout of -1, mean no change.

    `member_epoch` is 0 to join, -1 to leave and -2 to leave for a while (static members). `rebalance_timeout_ms` is how
    long it may take to give up partitions; `topic_partitions` is what it reads. In version 0 the coordinator makes a
    member id for a member without one; from version 1 on the client does.
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
    """All that a member is to read."""

    topic_partitions: Array[TopicPartitions]


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """Where the member stands; `assignment` is null if it has not changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
