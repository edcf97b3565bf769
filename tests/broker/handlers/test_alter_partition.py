"""Requests between brokers are refused when a client sends them, in words of the protocol."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import AlterPartitionRequest, PartitionData, TopicData
from tests.broker.harness import Harness


@pytest.mark.parametrize("version", range(4))
def test_nobody_alters_the_replicas_in_sync(version: int, harness: Harness) -> None:
    partition = PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    request = AlterPartitionRequest(broker_id=1, topics=[TopicData(partitions=[partition])])
    response = harness.ask(request, version)
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
