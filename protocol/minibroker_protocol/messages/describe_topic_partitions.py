"""DescribeTopicPartitions (key 75): TODO."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
    message,
    structure,
)


@structure
class TopicRequest:
    """TODO."""

    name: String


@structure
class Cursor:
    """TODO."""

    topic_name: String
    partition_index: Int32


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """TODO."""

    topics: Array[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@structure
class DescribeTopicPartitionsResponsePartition:
    """TODO."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    eligible_leader_replicas: NullableArray[Int32] = None
    last_known_elr: NullableArray[Int32] = None
    offline_replicas: Array[Int32]


@structure
class DescribeTopicPartitionsResponseTopic:
    """TODO."""

    error_code: Int16
    name: NullableString
    topic_id: Uuid
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -2147483648


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
