"""UpdateMetadata (key 6): a controller with ZooKeeper sends the metadata for clients; gone in Kafka 4.0."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    since,
    structure,
    tagged,
    versions,
)


@structure
class UpdateMetadataPartitionState:
    """A partition as the controller has it; brokers by their ids."""

    topic_name: Annotated[String, versions("0-4")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    zk_version: Int32
    replicas: Array[Int32]
    offline_replicas: Annotated[Array[Int32], since(4)] = field(default_factory=empty)


@structure
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: Annotated[String, since(5)] = ""
    topic_id: Annotated[Uuid, since(7)] = bytes(16)
    partition_states: Annotated[Array[UpdateMetadataPartitionState], since(5)] = field(default_factory=empty)


@structure
class UpdateMetadataEndpoint:
    """One listener of a broker."""

    port: Annotated[Int32, since(1)] = 0
    host: Annotated[String, since(1)] = ""
    listener: Annotated[String, since(3)] = ""
    security_protocol: Annotated[Int16, since(1)] = 0


@structure
class UpdateMetadataBroker:
    """A broker that is alive."""

    id: Int32
    v0_host: Annotated[String, versions("0")] = ""
    v0_port: Annotated[Int32, versions("0")] = 0
    endpoints: Annotated[Array[UpdateMetadataEndpoint], since(1)] = field(default_factory=empty)
    rack: Annotated[NullableString, since(2)] = ""


@message(versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    """The brokers and partitions; `controller_epoch` counts the controllers that there have been."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(8)] = False
    type: Annotated[Int8, tagged(0, "8+"), since(8)] = 0
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(5)] = -1
    ungrouped_partition_states: Annotated[Array[UpdateMetadataPartitionState], versions("0-4")] = field(
        default_factory=empty
    )
    topic_states: Annotated[Array[UpdateMetadataTopicState], since(5)] = field(default_factory=empty)
    live_brokers: Array[UpdateMetadataBroker]


@message(versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    """The outcome."""

    error_code: Int16
