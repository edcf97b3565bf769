"""Topics: to create, delete and grow them, and to describe their partitions page by page."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.primitives import ZERO_UUID
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
    empty,
    message,
    nullable,
    since,
    structure,
    tagged,
    versions,
)


@structure
class CreatableReplicaAssignment:
    """The brokers of one partition, when the client places them itself."""

    partition_index: Int32
    broker_ids: Array[Int32]


@structure
class CreatableTopicConfig:
    """One override of the topic's configuration."""

    name: String
    value: NullableString


@structure
class CreatableTopic:
    """`num_partitions` and `replication_factor` are -1 for the broker's default (KIP-464), or when placed by hand."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Array[CreatableReplicaAssignment] = field(default_factory=empty)
    configs: Array[CreatableTopicConfig] = field(default_factory=empty)


@message(versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """CreateTopics (key 19).

    `validate_only` checks everything and creates nothing.
    """

    topics: Array[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[Bool, since(1)] = False


@structure
class CreatableTopicConfigs:
    """One configuration value as it came out, with its source (KIP-525)."""

    name: String
    value: NullableString
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


@structure
class CreatableTopicResult:
    """The outcome for one topic."""

    name: String
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[NullableString, since(1)] = None
    topic_config_error_code: Annotated[Int16, tagged(0, "5+"), since(5)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[NullableArray[CreatableTopicConfigs], since(5), nullable("5+")] = None


@message(versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """One outcome per topic asked."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[CreatableTopicResult]


@structure
class DeleteTopicState:
    """A topic by name or by id, never both."""

    name: NullableString = None
    topic_id: Uuid = ZERO_UUID


@message(versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """DeleteTopics (key 20).

    Names up to version 5, names or ids from version 6 on (KIP-516).
    """

    topics: Annotated[Array[DeleteTopicState], since(6)] = field(default_factory=empty)
    topic_names: Annotated[Array[String], versions("0-5")] = field(default_factory=empty)
    timeout_ms: Int32


@structure
class DeletableTopicResult:
    """The outcome for one topic."""

    name: Annotated[NullableString, nullable("6+")]
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[NullableString, since(5)] = None


@message(versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """One outcome per topic asked."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    responses: Array[DeletableTopicResult]


@structure
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: Array[Int32]


@structure
class CreatePartitionsTopic:
    """`count` is the new total; `assignments` is null when the broker places the new partitions."""

    name: String
    count: Int32
    assignments: NullableArray[CreatePartitionsAssignment] = None


@message(versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """CreatePartitions (key 37): more partitions for existing topics.

    `validate_only` checks everything and creates nothing.
    """

    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool = False


@structure
class CreatePartitionsTopicResult:
    """The outcome for one topic."""

    name: String
    error_code: Int16
    error_message: NullableString = None


@message(versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One outcome per topic asked."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult]


@structure
class TopicRequest:
    """DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966).

    A topic by name.
    """

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
