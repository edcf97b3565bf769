"""LeaderAndIsr (key 4): a controller with ZooKeeper assigns partitions to lead and to follow; gone in Kafka 4.0."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class LeaderAndIsrPartitionState:
    """A partition as the controller has it; brokers by their ids."""

    topic_name: Annotated[String, versions("0-1")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    partition_epoch: Int32
    replicas: Array[Int32]
    adding_replicas: Annotated[Array[Int32], since(3)] = field(default_factory=empty)
    removing_replicas: Annotated[Array[Int32], since(3)] = field(default_factory=empty)
    is_new: Annotated[Bool, since(1)] = False
    leader_recovery_state: Annotated[Int8, since(6)] = 0


@structure
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: Annotated[String, since(2)] = ""
    topic_id: Annotated[Uuid, since(5)] = bytes(16)
    partition_states: Annotated[Array[LeaderAndIsrPartitionState], since(2)] = field(default_factory=empty)


@structure
class LeaderAndIsrLiveLeader:
    """Where a leader is found."""

    broker_id: Int32
    host_name: String
    port: Int32


@message(versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """The partitions to lead and to follow; `controller_epoch` counts the controllers that there have been."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(7)] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(2)] = -1
    type: Annotated[Int8, since(5)] = 0
    ungrouped_partition_states: Annotated[Array[LeaderAndIsrPartitionState], versions("0-1")] = field(
        default_factory=empty
    )
    topic_states: Annotated[Array[LeaderAndIsrTopicState], since(2)] = field(default_factory=empty)
    live_leaders: Array[LeaderAndIsrLiveLeader]


@structure
class LeaderAndIsrPartitionError:
    """The outcome for one partition."""

    topic_name: Annotated[String, versions("0-4")] = ""
    partition_index: Int32
    error_code: Int16


@structure
class LeaderAndIsrTopicError:
    """The partitions of one topic."""

    topic_id: Annotated[Uuid, since(5)] = bytes(16)
    partition_errors: Annotated[Array[LeaderAndIsrPartitionError], since(5)] = field(default_factory=empty)


@message(versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """One outcome for each partition, unless `error_code` is about all of them."""

    error_code: Int16
    partition_errors: Annotated[Array[LeaderAndIsrPartitionError], versions("0-4")] = field(default_factory=empty)
    topics: Annotated[Array[LeaderAndIsrTopicError], since(5)] = field(default_factory=empty)
