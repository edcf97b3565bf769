"""What goes between brokers and controllers is refused when a client sends it, in words of the protocol."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minibroker_protocol.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from minibroker_protocol.messages.envelope import EnvelopeRequest
from minibroker_protocol.messages.unregister_controller import UnregisterControllerRequest
from tests.broker.harness import Harness


@pytest.mark.parametrize("version", range(4))
def test_nobody_alters_the_replicas_in_sync(version: int, harness: Harness) -> None:
    partition = PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    request = AlterPartitionRequest(broker_id=1, topics=[TopicData(partitions=[partition])])
    response = harness.ask(request, version)
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_nobody_is_given_producer_ids(harness: Harness) -> None:
    response = harness.ask(AllocateProducerIdsRequest(broker_id=1), 0)
    assert (response.error_code, response.producer_id_len) == (ErrorCode.STALE_BROKER_EPOCH, 0)


def test_an_envelope_is_not_opened(harness: Harness) -> None:
    request = EnvelopeRequest(request_data=b"anything", request_principal=None, client_host_address=b"\x7f\0\0\1")
    response = harness.ask(request, 0)
    assert (response.error_code, response.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)


def test_the_only_controller_stays(harness: Harness) -> None:
    response = harness.ask(UnregisterControllerRequest(controller_id=harness.state.node_id), 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Cannot unregister controller 1 because it is part of the voter set."


@pytest.mark.parametrize("controller", [-1, 0, 2])
def test_a_controller_that_was_never_there_is_not_known(controller: int, harness: Harness) -> None:
    response = harness.ask(UnregisterControllerRequest(controller_id=controller), 0)
    assert response.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    assert response.error_message == f"Controller ID {controller} is not currently registered."
