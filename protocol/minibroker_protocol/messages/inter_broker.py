"""Requests that brokers and controllers exchange, most of them in clusters with ZooKeeper."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableBytes,
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
class LeaderAndIsrPartitionState:
    """The controller's state of a partition. Brokers are identified by their ids."""

    topic_name: Annotated[String, versions("0-1")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    partition_epoch: Int32
    replicas: Array[Int32]
    adding_replicas: Annotated[Array[Int32], since(3)] = empty()
    removing_replicas: Annotated[Array[Int32], since(3)] = empty()
    is_new: Annotated[Bool, since(1)] = False
    leader_recovery_state: Annotated[Int8, since(6)] = 0


@structure
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: Annotated[String, since(2)] = ""
    topic_id: Annotated[Uuid, since(5)] = bytes(16)
    partition_states: Annotated[Array[LeaderAndIsrPartitionState], since(2)] = empty()


@structure
class LeaderAndIsrLiveLeader:
    """The address of a partition leader."""

    broker_id: Int32
    host_name: String
    port: Int32


@message(versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """LeaderAndIsr (key 4): a ZooKeeper-based controller makes a broker the leader or a follower of partitions.

    The API was removed in Kafka 4.0. `controller_epoch` rises with each new controller.
    """

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(7)] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(2)] = -1
    type: Annotated[Int8, since(5)] = 0
    ungrouped_partition_states: Annotated[Array[LeaderAndIsrPartitionState], versions("0-1")] = empty()
    topic_states: Annotated[Array[LeaderAndIsrTopicState], since(2)] = empty()
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
    partition_errors: Annotated[Array[LeaderAndIsrPartitionError], since(5)] = empty()


@message(versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """One result per partition, unless the top-level `error_code` applies to all of them."""

    error_code: Int16
    partition_errors: Annotated[Array[LeaderAndIsrPartitionError], versions("0-4")] = empty()
    topics: Annotated[Array[LeaderAndIsrTopicError], since(5)] = empty()


@structure
class StopReplicaPartitionV0:
    """A replica to stop."""

    topic_name: Annotated[String, versions("0")] = ""
    partition_index: Annotated[Int32, versions("0")] = 0


@structure
class StopReplicaTopicV1:
    """The partitions of one topic."""

    name: Annotated[String, versions("1-2")] = ""
    partition_indexes: Annotated[Array[Int32], versions("1-2")] = empty()


@structure
class StopReplicaPartitionState:
    """A replica to stop. Its log is deleted if `delete_partition` is true."""

    partition_index: Annotated[Int32, since(3)] = 0
    leader_epoch: Annotated[Int32, since(3)] = -1
    delete_partition: Annotated[Bool, since(3)] = False


@structure
class StopReplicaTopicState:
    """The partitions of one topic."""

    topic_name: Annotated[String, since(3)] = ""
    partition_states: Annotated[Array[StopReplicaPartitionState], since(3)] = empty()


@message(versions="0-4", flexible="2+")
class StopReplicaRequest:
    """StopReplica (key 5): a ZooKeeper-based controller stops replicas on a broker.

    The API was removed in Kafka 4.0. `controller_epoch` rises with each new controller.
    """

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(4)] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(1)] = -1
    delete_partitions: Annotated[Bool, versions("0-2")] = False
    ungrouped_partitions: Annotated[Array[StopReplicaPartitionV0], versions("0")] = empty()
    topics: Annotated[Array[StopReplicaTopicV1], versions("1-2")] = empty()
    topic_states: Annotated[Array[StopReplicaTopicState], since(3)] = empty()


@structure
class StopReplicaPartitionError:
    """The outcome for one partition."""

    topic_name: String
    partition_index: Int32
    error_code: Int16


@message(versions="0-4", flexible="2+")
class StopReplicaResponse:
    """One result per partition, unless the top-level `error_code` applies to all of them."""

    error_code: Int16
    partition_errors: Array[StopReplicaPartitionError]


@structure
class UpdateMetadataPartitionState:
    """The controller's state of a partition. Brokers are identified by their ids."""

    topic_name: Annotated[String, versions("0-4")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    zk_version: Int32
    replicas: Array[Int32]
    offline_replicas: Annotated[Array[Int32], since(4)] = empty()


@structure
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: Annotated[String, since(5)] = ""
    topic_id: Annotated[Uuid, since(7)] = bytes(16)
    partition_states: Annotated[Array[UpdateMetadataPartitionState], since(5)] = empty()


@structure
class UpdateMetadataEndpoint:
    """One listener of a broker."""

    port: Annotated[Int32, since(1)] = 0
    host: Annotated[String, since(1)] = ""
    listener: Annotated[String, since(3)] = ""
    security_protocol: Annotated[Int16, since(1)] = 0


@structure
class UpdateMetadataBroker:
    """A live broker."""

    id: Int32
    v0_host: Annotated[String, versions("0")] = ""
    v0_port: Annotated[Int32, versions("0")] = 0
    endpoints: Annotated[Array[UpdateMetadataEndpoint], since(1)] = empty()
    rack: Annotated[NullableString, since(2)] = ""


@message(versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    """UpdateMetadata (key 6): a ZooKeeper-based controller sends brokers the metadata that clients request.

    The API was removed in Kafka 4.0. `controller_epoch` rises with each new controller.
    """

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(8)] = False
    type: Annotated[Int8, tagged(0, "8+"), since(8)] = 0
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(5)] = -1
    ungrouped_partition_states: Annotated[Array[UpdateMetadataPartitionState], versions("0-4")] = empty()
    topic_states: Annotated[Array[UpdateMetadataTopicState], since(5)] = empty()
    live_brokers: Array[UpdateMetadataBroker]


@message(versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    """The result of updating the metadata."""

    error_code: Int16


@message(versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    """ControlledShutdown (key 7): a broker asks a ZooKeeper-based controller for permission to stop.

    The API was removed in Kafka 4.0. Its version 0 is the only request without a client id in the header.
    """

    broker_id: Int32
    broker_epoch: Annotated[Int64, since(2)] = -1


@structure
class RemainingPartition:
    """A partition that the broker still leads."""

    topic_name: String
    partition_index: Int32


@message(versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    """The result of the request, with the partitions that prevent the broker from stopping."""

    error_code: Int16
    remaining_partitions: Array[RemainingPartition]


@structure
class BrokerState:
    """An in-sync replica, with the epoch of its broker's registration. An epoch of -1 skips the check of the epoch."""

    broker_id: Annotated[Int32, since(3)] = 0
    broker_epoch: Annotated[Int64, since(3)] = -1


@structure
class PartitionData:
    """The requested in-sync replicas of one partition, and the epochs that the leader assumes."""

    partition_index: Int32
    leader_epoch: Int32
    new_isr: Annotated[Array[Int32], versions("0-2")] = empty()
    new_isr_with_epochs: Annotated[Array[BrokerState], since(3)] = empty()
    leader_recovery_state: Annotated[Int8, since(1)] = 0
    partition_epoch: Int32


@structure
class TopicData:
    """The partitions of one topic. From version 2 on, a topic id identifies the topic."""

    topic_name: Annotated[String, versions("0-1")] = ""
    topic_id: Annotated[Uuid, since(2)] = bytes(16)
    partitions: Array[PartitionData]


@message(versions="0-3", flexible="0+")
class AlterPartitionRequest:
    """AlterPartition (key 56): a partition leader asks the controller to change the in-sync replicas.

    No client sends it. It was named AlterIsr before Kafka 3.2. The request has the epoch of the broker's
    registration.
    """

    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: Array[TopicData]


@structure
class AlteredPartition:
    """The controller's current state of one partition."""

    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    leader_recovery_state: Annotated[Int8, since(1)] = 0
    partition_epoch: Int32


@structure
class AlteredTopic:
    """The partitions of one topic. From version 2 on, a topic id identifies the topic."""

    topic_name: Annotated[String, versions("0-1")] = ""
    topic_id: Annotated[Uuid, since(2)] = bytes(16)
    partitions: Array[AlteredPartition]


@message(versions="0-3", flexible="0+")
class AlterPartitionResponse:
    """The new state of each partition. The top-level `error_code` applies to the whole request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: Array[AlteredTopic]


@message(versions="0", flexible="0+")
class EnvelopeRequest:
    """Envelope (key 58): a broker forwards a client's request to the controller (KIP-590). No client sends it.

    It contains the whole client request with its header, the principal as serialized by the principal builder, and
    the client's host.
    """

    request_data: Bytes
    request_principal: NullableBytes
    client_host_address: Bytes


@message(versions="0", flexible="0+")
class EnvelopeResponse:
    """The whole response to the forwarded request with its header, or null if the envelope itself was rejected."""

    response_data: NullableBytes = None
    error_code: Int16


@message(versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids. No client sends it.

    The request has the epoch of the broker's registration.
    """

    broker_id: Int32
    broker_epoch: Int64 = -1


@message(versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """A block of `producer_id_len` ids that begins with `producer_id_start`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32
