"""Metadata (key 3) and DescribeTopicPartitions (key 75): the brokers, and the leader of each partition."""

from typing import Annotated, Final

from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    nullable,
    since,
    structure,
    versions,
)

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
"""The authorized operations in a response if the client did not request them."""


@structure
class MetadataRequestTopic:
    """A topic to describe. It is identified by its name or, from version 10 on, by its topic id."""

    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[NullableString, nullable("10+")]


@message(versions="0-13", flexible="9+")
class MetadataRequest:
    """The topics to describe.

    A null `topics` selects all topics. An empty list selects all topics in version 0, and no topics in later
    versions.
    """

    topics: Annotated[NullableArray[MetadataRequestTopic], nullable("1+")]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, versions("8-10")] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


@structure
class MetadataResponseBroker:
    """The address of a broker."""

    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[NullableString, since(1)] = None


@structure
class MetadataResponsePartition:
    """The leader and the replicas of one partition."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    offline_replicas: Annotated[Array[Int32], since(5)] = empty()


@structure
class MetadataResponseTopic:
    """A topic, or the error that occurred for it."""

    error_code: Int16
    name: Annotated[NullableString, nullable("12+")]
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[Bool, since(1)] = False
    partitions: Array[MetadataResponsePartition]
    topic_authorized_operations: Annotated[Int32, since(8)] = NO_AUTHORIZED_OPERATIONS


@message(versions="0-13", flexible="9+")
class MetadataResponse:
    """The brokers, the controller, and the requested topics.

    The top-level `error_code` can tell the client to rebootstrap (KIP-1102).
    """

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: Array[MetadataResponseBroker]
    cluster_id: Annotated[NullableString, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, versions("8-10")] = NO_AUTHORIZED_OPERATIONS
    error_code: Annotated[Int16, since(13)] = 0


@structure
class TopicRequest:
    """The name of a topic to describe."""

    name: String


@structure
class Cursor:
    """The partition with which a page begins."""

    topic_name: String
    partition_index: Int32


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """DescribeTopicPartitions (key 75) describes the partitions of topics page by page (KIP-966).

    An empty list of topics selects all topics. `response_partition_limit` is the maximum number of partitions per
    page.
    """

    topics: Array[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@structure
class DescribeTopicPartitionsResponsePartition:
    """One partition.

    `eligible_leader_replicas` are replicas that are not in sync, but have all committed records. `last_known_elr`
    are replicas that were eligible before an unclean shutdown. Both are None if the cluster does not track such
    replicas.
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
    """A topic, or the error that occurred for it."""

    error_code: Int16
    name: NullableString
    topic_id: Uuid
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -2147483648


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """A page of topics, ordered by topic name and partition. `next_cursor` is None on the last page."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
