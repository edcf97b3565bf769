"""CreateTopics (key 19)."""

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
    """`validate_only` checks everything and creates nothing."""

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
