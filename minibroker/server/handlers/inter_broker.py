"""Handlers for requests between brokers and controllers, most of them from clusters with ZooKeeper."""

from typing import Final, NoReturn

from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    EnvelopeRequest,
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from minibroker_protocol.schema import first_version

_FIRST_WITH_TOPIC_ERRORS: Final = first_version(LeaderAndIsrResponse, "topics")


def _refuse_leader_and_isr(request: LeaderAndIsrRequest, version: int, code: ErrorCode) -> LeaderAndIsrResponse:
    """Refuse a request with an error for each partition. Before version 5 partitions are not grouped by topic."""
    if version >= _FIRST_WITH_TOPIC_ERRORS:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[_build_error("", state.partition_index, code) for state in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=code, topics=topics)
    errors = [
        _build_error(state.topic_name, state.partition_index, code) for state in request.ungrouped_partition_states
    ]
    for topic in request.topic_states:
        errors += [_build_error(topic.topic_name, state.partition_index, code) for state in topic.partition_states]
    return LeaderAndIsrResponse(error_code=code, partition_errors=errors)


@handles(
    ApiKey.LEADER_AND_ISR, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(whole=_refuse_leader_and_isr)
)
def leader_and_isr(_request: LeaderAndIsrRequest, _call: Call) -> NoReturn:
    """LeaderAndIsr: refuse a controller that assigns leaders and followers, as in clusters with ZooKeeper.

    Versions 0-7 are served. This broker alone controls its cluster, so the sender must be an outdated controller.
    It gets STALE_CONTROLLER_EPOCH, as from Kafka up to 3.9. Kafka without ZooKeeper closes the connection.
    """
    raise RefusedRequestError(ErrorCode.STALE_CONTROLLER_EPOCH)


def _build_error(topic: str, index: int, code: ErrorCode) -> LeaderAndIsrPartitionError:
    return LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code)


def _refuse_stop_replica(request: StopReplicaRequest, _version: int, code: ErrorCode) -> StopReplicaResponse:
    """Refuse a request with an error for each partition. Versions list partitions in three different forms."""
    partitions = [(partition.topic_name, partition.partition_index) for partition in request.ungrouped_partitions]
    partitions += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    for topic in request.topic_states:
        partitions += [(topic.topic_name, partition.partition_index) for partition in topic.partition_states]
    errors = [
        StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=code) for name, index in partitions
    ]
    return StopReplicaResponse(error_code=code, partition_errors=errors)


@handles(ApiKey.STOP_REPLICA, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(whole=_refuse_stop_replica))
def stop_replica(_request: StopReplicaRequest, _call: Call) -> NoReturn:
    """StopReplica: refuse a controller that removes replicas, as in clusters with ZooKeeper.

    Versions 0-4 are served. This broker alone controls its cluster, so the sender must be an outdated controller.
    It gets STALE_CONTROLLER_EPOCH, as from Kafka up to 3.9. Kafka without ZooKeeper closes the connection.
    """
    raise RefusedRequestError(ErrorCode.STALE_CONTROLLER_EPOCH)


@handles(ApiKey.UPDATE_METADATA, needs=on_cluster(Operation.CLUSTER_ACTION))
def update_metadata(_request: UpdateMetadataRequest, _call: Call) -> NoReturn:
    """UpdateMetadata: refuse a controller that sends metadata for clients, as in clusters with ZooKeeper.

    Versions 0-8 are served. This broker alone controls its cluster, so the sender must be an outdated controller.
    It gets STALE_CONTROLLER_EPOCH, as from Kafka up to 3.9. Kafka without ZooKeeper closes the connection.
    """
    raise RefusedRequestError(ErrorCode.STALE_CONTROLLER_EPOCH)


@handles(ApiKey.CONTROLLED_SHUTDOWN, needs=on_cluster(Operation.CLUSTER_ACTION))
def controlled_shutdown(_request: ControlledShutdownRequest, _call: Call) -> NoReturn:
    """ControlledShutdown: refuse the shutdown request of a broker, which exists in clusters with ZooKeeper.

    Versions 0-3 are served. Version 0 has no client id in its header. Brokers of this cluster never send this
    request, and this broker is not the controller of any other. The error is STALE_CONTROLLER_EPOCH, which Kafka up
    to 3.9 returns if it is not the controller. Kafka without ZooKeeper closes the connection.
    """
    raise RefusedRequestError(ErrorCode.STALE_CONTROLLER_EPOCH)


@handles(ApiKey.ALTER_PARTITION, needs=on_cluster(Operation.CLUSTER_ACTION))
def alter_partition(_request: AlterPartitionRequest, _call: Call) -> NoReturn:
    """AlterPartition: refuse the request, which brokers of this cluster never send.

    Versions 0-3 are served. The nodes of this cluster need no requests to each other, so the sender cannot be one
    of them. The error is STALE_BROKER_EPOCH, which a Kafka controller returns to a broker that is not registered
    with the epoch in its request.
    """
    raise RefusedRequestError(ErrorCode.STALE_BROKER_EPOCH)


@handles(ApiKey.ENVELOPE, needs=on_cluster(Operation.CLUSTER_ACTION))
def envelope(_request: EnvelopeRequest, _call: Call) -> NoReturn:
    """Envelope: refuse the request, as any Kafka broker does if a client sends it (KIP-590).

    Version 0 is served. Only controllers accept envelopes, and only from brokers of their cluster. The error is
    CLUSTER_AUTHORIZATION_FAILED, whatever the envelope contains.
    """
    raise RefusedRequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@handles(ApiKey.ALLOCATE_PRODUCER_IDS, needs=on_cluster(Operation.CLUSTER_ACTION))
def allocate_producer_ids(_request: AllocateProducerIdsRequest, _call: Call) -> NoReturn:
    """AllocateProducerIds: refuse the request, which brokers of this cluster never send.

    Version 0 is served, with the error of `alter_partition`. Producers use InitProducerId instead.
    """
    raise RefusedRequestError(ErrorCode.STALE_BROKER_EPOCH)
