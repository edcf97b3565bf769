"""ShareGroupHeartbeat (key 76): join a share group, stay in it, leave it (KIP-932)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
    message,
    structure,
)


@message(versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """A member's heartbeat; null means no change. `member_epoch` is 0 to join, -1 to leave."""

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
    """The member's epoch; `assignment` is null if it has not changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
