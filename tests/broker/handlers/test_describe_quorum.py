"""DescribeQuorum: a quorum of one; compared with Kafka 3.9.1."""

from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import DescribeQuorumRequest, PartitionData, TopicData
from tests.broker.harness import ADVERTISED, Harness

METADATA = ("__cluster_metadata", [0])


def ask(harness: Harness, *requested: tuple[str, list[int]], version: int = 2) -> Any:
    topics = [
        TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in indexes])
        for name, indexes in requested
    ]
    response = harness.ask(DescribeQuorumRequest(topics=topics), version)
    assert response.error_code == 0
    return response


@pytest.mark.parametrize("version", range(3))
def test_the_broker_is_its_own_quorum(harness: Harness, version: int) -> None:
    (topic,) = ask(harness, METADATA, version=version).topics
    (quorum,) = topic.partitions
    assert (topic.topic_name, quorum.partition_index, quorum.error_code) == ("__cluster_metadata", 0, 0)
    assert (quorum.leader_id, quorum.leader_epoch, quorum.observers) == (1, 1, [])
    (voter,) = quorum.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, quorum.high_watermark)


def test_the_times_of_the_leader_are_now_from_version_1_on(harness: Harness) -> None:
    now = harness.clock.now_ms()
    for version, time in ((0, -1), (1, now), (2, now)):
        (voter,) = ask(harness, METADATA, version=version).topics[0].partitions[0].current_voters
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (time, time)


def test_version_2_tells_where_the_voter_is(harness: Harness) -> None:
    (node,) = ask(harness, METADATA).nodes
    (listener,) = node.listeners
    assert (node.node_id, listener.host, listener.port) == (1, *ADVERTISED)


def test_offsets_grow_as_those_of_an_idle_kafka(harness: Harness) -> None:
    def high_watermark() -> Any:
        return ask(harness, METADATA).topics[0].partitions[0].high_watermark

    before = high_watermark()
    assert before > 0
    harness.clock.advance(10_000)
    assert high_watermark() == before + 20


def test_other_brokers_observe_while_they_are_up(tmp_path: Path) -> None:
    cluster = Harness(str(tmp_path / "data"), brokers=3)
    cluster.core.cluster.stop_node(2)
    quorum = ask(cluster, METADATA).topics[0].partitions[0]
    assert [each.replica_id for each in quorum.observers] == [3]
    cluster.close()


def test_another_controller_leads_in_another_epoch(tmp_path: Path) -> None:
    cluster = Harness(str(tmp_path / "data"), brokers=2)
    cluster.core.cluster.stop_node(1)
    cluster.asks = 2
    quorum = ask(cluster, METADATA).topics[0].partitions[0]
    assert (quorum.leader_id, quorum.leader_epoch, [each.replica_id for each in quorum.current_voters]) == (2, 2, [2])
    cluster.close()


@pytest.mark.parametrize("requested", [[("t", [0])], [METADATA, ("t", [0])], [("__cluster_metadata", [0, 1])]])
def test_there_is_no_other_quorum(harness: Harness, requested: list[tuple[str, list[int]]]) -> None:
    topics = ask(harness, *requested).topics
    codes = [each.error_code for topic in topics for each in topic.partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * sum(len(indexes) for _, indexes in requested)
