"""StopReplica: a controller of the past is refused, in the form of every version."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from tests.broker.harness import Harness


@pytest.mark.parametrize("version", range(5))
def test_every_controller_is_one_of_the_past(harness: Harness, version: int) -> None:
    named: dict[str, Any]
    if version == 0:
        named = {"ungrouped_partitions": [StopReplicaPartitionV0(topic_name="t", partition_index=0)]}
    elif version < 3:
        named = {"topics": [StopReplicaTopicV1(name="t", partition_indexes=[0])]}
    else:
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=9, delete_partition=True)
        named = {"topic_states": [StopReplicaTopicState(topic_name="t", partition_states=[state])]}
    request = StopReplicaRequest(controller_id=2, controller_epoch=1_000_000, delete_partitions=True, **named)
    response = harness.ask(request, version)
    stale = ErrorCode.STALE_CONTROLLER_EPOCH
    assert response.error_code == stale
    codes = [(each.topic_name, each.partition_index, each.error_code) for each in response.partition_errors]
    assert codes == [("t", 0, stale)]
    assert harness.core.topics.get("t") is not None
