"""StopReplica (key 5): a controller with ZooKeeper takes replicas from a broker; gone in Kafka 4.0."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class StopReplicaPartitionV0:
    """A partition."""

    topic_name: Annotated[String, versions("0")] = ""
    partition_index: Annotated[Int32, versions("0")] = 0


@structure
class StopReplicaTopicV1:
    """The partitions of one topic."""

    name: Annotated[String, versions("1-2")] = ""
    partition_indexes: Annotated[Array[Int32], versions("1-2")] = field(default_factory=empty)


@structure
class StopReplicaPartitionState:
    """A partition, and whether its log goes, too."""

    partition_index: Annotated[Int32, since(3)] = 0
    leader_epoch: Annotated[Int32, since(3)] = -1
    delete_partition: Annotated[Bool, since(3)] = False


@structure
class StopReplicaTopicState:
    """The partitions of one topic."""

    topic_name: Annotated[String, since(3)] = ""
    partition_states: Annotated[Array[StopReplicaPartitionState], since(3)] = field(default_factory=empty)


@message(versions="0-4", flexible="2+")
class StopReplicaRequest:
    """The replicas to stop; `controller_epoch` counts the controllers that there have been."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(4)] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(1)] = -1
    delete_partitions: Annotated[Bool, versions("0-2")] = False
    ungrouped_partitions: Annotated[Array[StopReplicaPartitionV0], versions("0")] = field(default_factory=empty)
    topics: Annotated[Array[StopReplicaTopicV1], versions("1-2")] = field(default_factory=empty)
    topic_states: Annotated[Array[StopReplicaTopicState], since(3)] = field(default_factory=empty)


@structure
class StopReplicaPartitionError:
    """The outcome for one partition."""

    topic_name: String
    partition_index: Int32
    error_code: Int16


@message(versions="0-4", flexible="2+")
class StopReplicaResponse:
    """One outcome for each partition, unless `error_code` is about all of them."""

    error_code: Int16
    partition_errors: Array[StopReplicaPartitionError]
