"""LeaderAndIsr: a controller of the past is refused, in the form of every version."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.broker.harness import Harness

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
        codes = [(each.topic_name, each.partition_index, each.error_code) for each in response.partition_errors]
        assert codes == [("t", 3, STALE)]
    else:
        (answered,) = response.topics
        assert [(each.partition_index, each.error_code) for each in answered.partition_errors] == [(3, STALE)]
        assert answered.topic_id == TOPIC_ID


def test_nothing_is_changed_by_it(harness: Harness) -> None:
    ask(harness, 1, ungrouped_partition_states=[state(topic_name="t")])
    topic = harness.core.topics.get("t")
    assert topic is not None
    assert topic.partitions[0].leader is harness.core.cluster.first
