"""DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966)."""

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
    """A topic by name."""

    name: String


@structure
class Cursor:
    """The first partition that a page has, or that the next one will have."""

    topic_name: String
    partition_index: Int32


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """The topics to describe, all of them if there are none, and how many partitions a page may have."""

    topics: Array[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@structure
class DescribeTopicPartitionsResponsePartition:
    """One partition.

    `eligible_leader_replicas` are not in sync but have all that is committed, and `last_known_elr` are those that had
    it when they went without a clean stop; None where no account is kept of them.
    """

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
    """One topic, or why it cannot be described."""

    error_code: Int16
    name: NullableString
    topic_id: Uuid
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -2147483648


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """A page, in the order of names and partitions; `next_cursor` is None on the last one."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
