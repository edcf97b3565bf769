"""APIs that create, delete and extend topics."""

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
    """The replicas of one partition, if the client assigns them."""

    partition_index: Int32
    broker_ids: Array[Int32]


@structure
class CreatableTopicConfig:
    """A configuration override of the topic."""

    name: String
    value: NullableString


@structure
class CreatableTopic:
    """A topic to create.

    `num_partitions` and `replication_factor` are -1 to use the broker's defaults (KIP-464). They are also -1 if the
    client assigns the replicas.
    """

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Array[CreatableReplicaAssignment] = empty()
    configs: Array[CreatableTopicConfig] = empty()


@message(versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """CreateTopics (key 19) creates topics.

    If `validate_only` is true, everything is checked but nothing is created.
    """

    topics: Array[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[Bool, since(1)] = False


@structure
class CreatableTopicConfigs:
    """An effective configuration value with its source (KIP-525)."""

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
    """One result per requested topic."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[CreatableTopicResult]


@structure
class DeleteTopicState:
    """A topic, identified by either its name or its id."""

    name: NullableString = None
    topic_id: Uuid = ZERO_UUID


@message(versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """DeleteTopics (key 20) deletes topics.

    Up to version 5, topics are identified by name. From version 6 on, they are identified by name or id (KIP-516).
    """

    topics: Annotated[Array[DeleteTopicState], since(6)] = empty()
    topic_names: Annotated[Array[String], versions("0-5")] = empty()
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
    """One result per requested topic."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    responses: Array[DeletableTopicResult]


@structure
class CreatePartitionsAssignment:
    """The replicas of one new partition."""

    broker_ids: Array[Int32]


@structure
class CreatePartitionsTopic:
    """A topic to extend. `count` is the new number of partitions.

    If `assignments` is null, the broker assigns the replicas of the new partitions.
    """

    name: String
    count: Int32
    assignments: NullableArray[CreatePartitionsAssignment] = None


@message(versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """CreatePartitions (key 37) adds partitions to existing topics.

    If `validate_only` is true, everything is checked but nothing is created.
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
    """One result per requested topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult]
