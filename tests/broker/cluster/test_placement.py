"""The brokers of a partition, and the assignments that a client may request. Errors are those of Kafka 3.9.1."""

import json
from pathlib import Path

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import topics as topic_messages
from tests.broker.cluster.conftest import MakeCluster
from tests.broker.cluster.nodes import NODES, coordinator, create, described, leader, metadata, partition, stop
from tests.broker.harness import Harness


def grow(cluster: Harness, count: int, *by_hand: list[int]) -> topic_messages.CreatePartitionsTopicResult:
    assignments = [topic_messages.CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in by_hand] or None
    topic = topic_messages.CreatePartitionsTopic(name="t", count=count, assignments=assignments)
    (result,) = cluster.ask(
        topic_messages.CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False), 3
    ).results
    assert isinstance(result, topic_messages.CreatePartitionsTopicResult)
    return result


def test_leaders_and_replicas_are_spread(cluster: Harness) -> None:
    assert [
        (
            partition.leader_id,
            partition.leader_epoch,
            partition.replica_nodes,
            partition.isr_nodes,
            partition.offline_replicas,
        )
        for partition in described(cluster)
    ] == [(1, 0, [1, 2, 3], [1, 2, 3], []), (2, 0, [2, 3, 1], [2, 3, 1], []), (3, 0, [3, 1, 2], [3, 1, 2], [])]


def test_topics_of_one_partition_are_on_different_nodes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    for name in "abcd":
        create(cluster, name, 1, 1)
    assert [leader(cluster, 0, name) for name in "abcd"] == [1, 2, 3, 1]


def test_a_client_that_names_no_replication_factor_gets_the_default(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(default_replication_factor="2")
    result = create(cluster, factor=-1)
    assert (result.error_code, result.replication_factor) == (0, 2)
    assert partition(cluster).replicas == (1, 2)


def test_defaults_go_as_far_as_there_are_nodes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(2, default_replication_factor="3")
    assert create(cluster, factor=-1).replication_factor == 2
    coordinator(cluster, "g")
    assert len(partition(cluster, 0, "__consumer_offsets").replicas) == 2  # Kafka's default is 3.


def test_a_broker_that_is_alone_takes_any_replication_factor(make_cluster: MakeCluster) -> None:
    result = create(make_cluster(1), factor=3)
    assert (result.error_code, result.replication_factor) == (0, 1)


@pytest.mark.parametrize(
    ("by_hand", "reason"),
    [
        (((1, 4),), "broker 4, but no such broker is registered"),
        (((2, 2),), "broker 2 more than once"),
        (((1, 2), (1,)), "which have 2 replica(s)"),
        (((),), "empty replica list"),
    ],
)
def test_replicas_that_cannot_be_are_refused(
    cluster: Harness, by_hand: tuple[tuple[int, ...], ...], reason: str
) -> None:
    result = create(cluster, "u", by_hand=by_hand)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reason in (result.error_message or "")


def test_new_partitions_go_on_where_the_others_have_ended(cluster: Harness) -> None:
    assert grow(cluster, 5).error_code == 0
    assert [partition(cluster, index).replicas for index in (3, 4)] == [(1, 3, 2), (2, 1, 3)]


def test_new_partitions_have_as_many_replicas_as_the_others(cluster: Harness) -> None:
    result = grow(cluster, 4, [1, 2])
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(cluster, 4, [3, 2, 1]).error_code == 0
    assert partition(cluster, 3).replicas == (3, 2, 1)


def test_nodes_that_are_down_get_partitions_only_if_there_are_too_few_others(cluster: Harness) -> None:
    stop(cluster, 2)
    create(cluster, "u", 4, 2)
    assert {node_id for index in range(4) for node_id in partition(cluster, index, "u").replicas} == {1, 3}
    create(cluster, "v", 3, 3)
    assert [(leader(cluster, index, "v"), 2 in partition(cluster, index, "v").isr) for index in range(3)].count(
        (2, True)
    ) == 0


def test_who_leads_what_survives_a_restart(cluster: Harness) -> None:
    cluster.core.cluster.move_leader("t", 0, 3)
    cluster.core.cluster.move_leader("t", 0, 2)
    before = described(cluster)
    cluster.restart()
    assert described(cluster) == before
    assert (before[0].leader_id, before[0].leader_epoch) == (2, 2)


def test_after_a_restart_all_nodes_are_up_and_in_sync(cluster: Harness) -> None:
    stop(cluster, *NODES)
    epoch = partition(cluster, 0).leader_epoch
    cluster.restart()
    restored = partition(cluster, 0)
    assert (restored.leader, restored.isr) == (cluster.core.cluster.node(1), (1, 2, 3))
    assert restored.leader_epoch == epoch + 1


def test_a_smaller_cluster_takes_over_what_a_larger_one_has_left(cluster: Harness, make_cluster: MakeCluster) -> None:
    cluster.close()
    alone = make_cluster(1)
    assert [
        (partition.leader_id, partition.leader_epoch, partition.replica_nodes) for partition in described(alone)
    ] == [(1, 0, [1]), (1, 1, [1]), (1, 1, [1])]


def test_a_larger_cluster_takes_over_what_one_broker_has_left(make_cluster: MakeCluster) -> None:
    alone = make_cluster(1)
    create(alone)
    alone.close()
    assert [partition.replica_nodes for partition in described(make_cluster(3))] == [[1], [2], [3]]


def test_the_file_of_a_broker_that_is_alone_says_nothing_of_replicas(make_cluster: MakeCluster) -> None:
    alone = make_cluster(1)
    create(alone)
    state = json.loads((Path(alone.data_dir) / "minibroker-topics.json").read_text())
    assert state["topics"]["t"].keys() == {"id", "partitions", "configs"}


def test_the_racks_of_nodes_are_told(make_cluster: MakeCluster) -> None:
    assert {broker.rack for broker in metadata(make_cluster(broker_rack="a")).brokers} == {"a"}
