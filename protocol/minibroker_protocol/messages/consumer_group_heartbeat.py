"""ConsumerGroupHeartbeat (key 68): TODO."""

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
    """TODO."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """TODO."""

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
    """TODO."""

    topic_partitions: Array[TopicPartitions]


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
