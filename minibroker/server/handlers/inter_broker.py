"""Requests between brokers and controllers, most of them of clusters with ZooKeeper."""

from typing import Any, Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minibroker_protocol.schema import first_version

_FIRST_WITH_TOPIC_ERRORS: Final = first_version(LeaderAndIsrResponse, "topics")


def _refuse_leader_and_isr(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """The error stands at each partition, which the versions before 5 list without their topics."""
    if version >= _FIRST_WITH_TOPIC_ERRORS:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[_error("", each.partition_index, code) for each in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=code, topics=topics)
    errors = [_error(each.topic_name, each.partition_index, code) for each in request.ungrouped_partition_states]
    for topic in request.topic_states:
        errors += [_error(topic.topic_name, each.partition_index, code) for each in topic.partition_states]
    return LeaderAndIsrResponse(error_code=code, partition_errors=errors)


@handles(
    ApiKey.LEADER_AND_ISR, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(whole=_refuse_leader_and_isr)
)
def leader_and_isr(request: LeaderAndIsrRequest, call: Call) -> Any:
    """LeaderAndIsr: a controller assigns a broker the partitions to lead and to follow, in clusters with ZooKeeper.

    Versions 0-7. Only this broker controls its cluster, so a client that sends this is an outdated controller:
    STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
    connection.
    """
    return _refuse_leader_and_isr(request, call.api_version, ErrorCode.STALE_CONTROLLER_EPOCH)


def _error(topic: str, index: int, code: ErrorCode) -> LeaderAndIsrPartitionError:
    return LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code)


def _refuse_stop_replica(request: StopReplicaRequest, _version: int, code: ErrorCode) -> StopReplicaResponse:
    """The error stands at each partition; the versions list them in three ways."""
    named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    for topic in request.topic_states:
        named += [(topic.topic_name, each.partition_index) for each in topic.partition_states]
    errors = [
        StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=code) for name, index in named
    ]
    return StopReplicaResponse(error_code=code, partition_errors=errors)


@handles(ApiKey.STOP_REPLICA, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(whole=_refuse_stop_replica))
def stop_replica(request: StopReplicaRequest, call: Call) -> Any:
    """StopReplica: a controller takes replicas from a broker, in clusters with ZooKeeper.

    Versions 0-4. Only this broker controls its cluster, so a client that sends this is an outdated controller:
    STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
    connection.
    """
    return _refuse_stop_replica(request, call.api_version, ErrorCode.STALE_CONTROLLER_EPOCH)


@handles(ApiKey.UPDATE_METADATA, needs=on_cluster(Operation.CLUSTER_ACTION))
def update_metadata(_request: UpdateMetadataRequest, _call: Call) -> UpdateMetadataResponse:
    """UpdateMetadata: a controller sends a broker the metadata for clients, in clusters with ZooKeeper.

    Versions 0-8. Only this broker controls its cluster, so a client that sends this is an outdated controller:
    STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers one whose epoch is over. Kafka without ZooKeeper closes the
    connection.
    """
    return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)


@handles(ApiKey.CONTROLLED_SHUTDOWN, needs=on_cluster(Operation.CLUSTER_ACTION))
def controlled_shutdown(_request: ControlledShutdownRequest, _call: Call) -> ControlledShutdownResponse:
    """ControlledShutdown: a broker asks its controller to be stopped, in clusters with ZooKeeper.

    Versions 0-3; version 0 has no client id in its header. No broker of this cluster asks over the network, and
    none is the controller of another one: STALE_CONTROLLER_EPOCH, as Kafka up to 3.9 answers where the controller
    is elsewhere. Kafka without ZooKeeper closes the connection.
    """
    return ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, remaining_partitions=[])


@handles(ApiKey.ALTER_PARTITION, needs=on_cluster(Operation.CLUSTER_ACTION))
def alter_partition(_request: AlterPartitionRequest, _call: Call) -> AlterPartitionResponse:
    """AlterPartition: refused, as what no broker of this cluster has sent.

    Versions 0-3. The nodes of this cluster need not ask each other, so a client that asks is none:
    STALE_BROKER_EPOCH, with which a Kafka controller answers a broker that is not registered with the epoch that it
    says.
    """
    return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])


@handles(ApiKey.ENVELOPE, needs=on_cluster(Operation.CLUSTER_ACTION))
def envelope(_request: EnvelopeRequest, _call: Call) -> EnvelopeResponse:
    """Envelope: refused, as by any Kafka broker that is asked by a client (KIP-590).

    Version 0. Envelopes are for controllers, from brokers that they know: CLUSTER_AUTHORIZATION_FAILED, whatever is
    inside.
    """
    return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@handles(ApiKey.ALLOCATE_PRODUCER_IDS, needs=on_cluster(Operation.CLUSTER_ACTION))
def allocate_producer_ids(_request: AllocateProducerIdsRequest, _call: Call) -> AllocateProducerIdsResponse:
    """AllocateProducerIds: refused, as what no broker of this cluster has sent.

    Version 0. See AlterPartition. Producers ask with InitProducerId.
    """
    return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, producer_id_start=0, producer_id_len=0)
