"""Requests between brokers and controllers, which are refused in every version when a client sends them."""

import struct
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    EnvelopeRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    PartitionData,
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
    TopicData,
    UpdateMetadataRequest,
)
from tests.broker.harness import Harness, bytes_of


def test_nobody_is_given_producer_ids(harness: Harness) -> None:
    response = harness.ask(AllocateProducerIdsRequest(broker_id=1), 0)
    assert (response.error_code, response.producer_id_len) == (ErrorCode.STALE_BROKER_EPOCH, 0)


@pytest.mark.parametrize("version", range(4))
def test_nobody_alters_the_replicas_in_sync(version: int, harness: Harness) -> None:
    partition = PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    request = AlterPartitionRequest(broker_id=1, topics=[TopicData(partitions=[partition])])
    response = harness.ask(request, version)
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


@pytest.mark.parametrize("version", range(1, 4))
def test_the_controller_is_elsewhere(harness: Harness, version: int) -> None:
    response = harness.ask(ControlledShutdownRequest(broker_id=1), version)
    assert (response.error_code, response.remaining_partitions) == (ErrorCode.STALE_CONTROLLER_EPOCH, [])


def test_version_0_has_no_client_id_in_its_header(harness: Harness) -> None:
    frame = bytearray(struct.pack(">hhii", ApiKey.CONTROLLED_SHUTDOWN, 0, 77, 1))
    outcome = accept(memoryview(frame), harness.session())
    assert isinstance(outcome, Answer)
    assert bytes_of(outcome) == struct.pack(">iihi", 10, 77, ErrorCode.STALE_CONTROLLER_EPOCH, 0)


def test_an_envelope_is_not_opened(harness: Harness) -> None:
    request = EnvelopeRequest(request_data=b"anything", request_principal=None, client_host_address=b"\x7f\0\0\1")
    response = harness.ask(request, 0)
    assert (response.error_code, response.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)


STALE = ErrorCode.STALE_CONTROLLER_EPOCH


TOPIC_ID = b"\7" * 16


def state(**fields: Any) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=3,
        controller_epoch=1,
        leader=2,
        leader_epoch=1,
        isr=[2],
        partition_epoch=1,
        replicas=[2],
        **fields,
    )


def ask(harness: Harness, version: int, **fields: Any) -> Any:
    request = LeaderAndIsrRequest(controller_id=2, controller_epoch=1_000_000, live_leaders=[], **fields)
    return harness.ask(request, version)


@pytest.mark.parametrize("version", range(8))
def test_every_controller_is_one_of_the_past(harness: Harness, version: int) -> None:
    if version < 2:
        response = ask(harness, version, ungrouped_partition_states=[state(topic_name="t")])
    else:
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state()])
        response = ask(harness, version, topic_states=[topic])
    assert response.error_code == STALE
    if version < 5:
        codes = [
            (partition.topic_name, partition.partition_index, partition.error_code)
            for partition in response.partition_errors
        ]
        assert codes == [("t", 3, STALE)]
    else:
        (answered,) = response.topics
        assert [(partition.partition_index, partition.error_code) for partition in answered.partition_errors] == [
            (3, STALE)
        ]
        assert answered.topic_id == TOPIC_ID


def test_nothing_is_changed_by_it(harness: Harness) -> None:
    ask(harness, 1, ungrouped_partition_states=[state(topic_name="t")])
    assert harness.topic().partitions[0].leader is harness.core.cluster.first


@pytest.mark.parametrize("version", range(5))
def test_a_controller_of_the_past_stops_no_replica(harness: Harness, version: int) -> None:
    fields: dict[str, Any]
    if version == 0:
        fields = {"ungrouped_partitions": [StopReplicaPartitionV0(topic_name="t", partition_index=0)]}
    elif version < 3:
        fields = {"topics": [StopReplicaTopicV1(name="t", partition_indexes=[0])]}
    else:
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=9, delete_partition=True)
        fields = {"topic_states": [StopReplicaTopicState(topic_name="t", partition_states=[state])]}
    request = StopReplicaRequest(controller_id=2, controller_epoch=1_000_000, delete_partitions=True, **fields)
    response = harness.ask(request, version)
    stale = ErrorCode.STALE_CONTROLLER_EPOCH
    assert response.error_code == stale
    codes = [
        (partition.topic_name, partition.partition_index, partition.error_code)
        for partition in response.partition_errors
    ]
    assert codes == [("t", 0, stale)]
    assert harness.core.topics.get("t") is not None


@pytest.mark.parametrize("version", range(9))
def test_a_controller_of_the_past_updates_nothing(harness: Harness, version: int) -> None:
    request = UpdateMetadataRequest(controller_id=2, controller_epoch=1_000_000, live_brokers=[])
    assert harness.ask(request, version).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert [node.id for node in harness.core.cluster.up] == [1]
