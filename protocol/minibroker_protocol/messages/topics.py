"""Topics: to create, delete and grow them."""

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
