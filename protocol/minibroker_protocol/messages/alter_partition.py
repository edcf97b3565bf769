"""AlterPartition (key 56): a broker asks the controller for another set of replicas in sync.

It goes between brokers and controllers only. It was called AlterIsr before Kafka 3.2.
"""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
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
class BrokerState:
    """A replica in sync, and the epoch with which its broker has registered; -1 if that does not matter."""

    broker_id: Annotated[Int32, since(3)] = 0
    broker_epoch: Annotated[Int64, since(3)] = -1


@structure
class PartitionData:
    """The set that is wanted for one partition, and the epochs that it was made for."""

    partition_index: Int32
    leader_epoch: Int32
    new_isr: Annotated[Array[Int32], versions("0-2")] = field(default_factory=empty)
    new_isr_with_epochs: Annotated[Array[BrokerState], since(3)] = field(default_factory=empty)
    leader_recovery_state: Annotated[Int8, since(1)] = 0
    partition_epoch: Int32


@structure
class TopicData:
    """The partitions of one topic, which is named by its id from version 2 on."""

    topic_name: Annotated[String, versions("0-1")] = ""
    topic_id: Annotated[Uuid, since(2)] = bytes(16)
    partitions: Array[PartitionData]


@message(versions="0-3", flexible="0+")
class AlterPartitionRequest:
    """The broker that asks, with the epoch of its registration."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: Array[TopicData]


@structure
class AlteredPartition:
    """One partition as the controller has it now."""

    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    leader_recovery_state: Annotated[Int8, since(1)] = 0
    partition_epoch: Int32


@structure
class AlteredTopic:
    """The partitions of one topic."""

    topic_name: Annotated[String, versions("0-1")] = ""
    topic_id: Annotated[Uuid, since(2)] = bytes(16)
    partitions: Array[AlteredPartition]


@message(versions="0-3", flexible="0+")
class AlterPartitionResponse:
    """`error_code` speaks of the whole request; each partition has one of its own."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: Array[AlteredTopic]
