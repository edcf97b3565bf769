"""Brokers in racks: their metadata, the placement of replicas, and the preferred read replica (KIP-392)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.fetch import PartitionData
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minibroker_protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from tests.broker.cluster.nodes import at, coordinator, create, described, metadata, partition
from tests.broker.config.configs import BROKER, value
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.harness import Harness, Pending, batch, fetch_request, only_partition

SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Harness]:
    """Return brokers 1 to 3 in racks a, b and c, and a topic "t" on brokers 1 and 2, led by 1."""
    brokers = Harness(str(tmp_path / "data"), SELECTOR, brokers=3, racks=["a", "b", "c"])
    with closing(brokers):
        assert create(brokers, by_hand=((1, 2),)).error_code == 0
        at(brokers, 1).produce(batch(b"x", b"y"))
        yield brokers


def fetch_from_rack(cluster: Harness, rack: str, *, offset: int = 0, version: int = 12, **fields: Any) -> PartitionData:
    """Return the result of a fetch by a consumer in a rack."""
    response = cluster.ask(fetch_request(("t", 0, offset), max_wait_ms=0, rack_id=rack, **fields), version)
    return only_partition(response)


def test_clients_see_the_rack_of_each_broker(cluster: Harness) -> None:
    assert [node.rack for node in metadata(cluster).brokers] == ["a", "b", "c"]
    described_cluster = cluster.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    assert [node.rack for node in described_cluster.brokers] == ["a", "b", "c"]
    for node_id, rack in enumerate("abc", 1):
        assert value(at(cluster, node_id), BROKER, str(node_id), "broker.rack") == rack


def test_a_broker_without_a_rack_of_its_own_has_the_one_that_is_configured_for_all(tmp_path: Path) -> None:
    with closing(Harness(str(tmp_path), {"broker.rack": "z"}, brokers=2, racks=["a", ""])) as cluster:
        assert [node.rack for node in metadata(cluster).brokers] == ["a", "z"]
    with closing(Harness(str(tmp_path), brokers=2, racks=["a", ""])) as cluster:
        assert [node.rack for node in metadata(cluster).brokers] == ["a", None]


def test_a_replica_that_is_down_is_not_preferred_until_it_is_back(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(2)
    assert fetch_from_rack(at(cluster, 1), "b").records
    cluster.core.cluster.start_node(2)
    assert fetch_from_rack(cluster, "b").preferred_read_replica == 2


def test_of_several_replicas_in_the_rack_the_one_with_the_highest_id_is_preferred(tmp_path: Path) -> None:
    with closing(Harness(str(tmp_path), SELECTOR, brokers=4, racks=["b", "a", "b", "b"])) as cluster:
        create(cluster, by_hand=((2, 3, 1),))
        assert fetch_from_rack(at(cluster, 2), "b").preferred_read_replica == 3


def test_a_fetch_that_would_wait_is_told_of_the_replica_immediately(cluster: Harness) -> None:
    response = at(cluster, 1).send(fetch_request(("t", 0, 2), max_wait_ms=5000, rack_id="b"), 12)
    assert only_partition(response).preferred_read_replica == 2
    assert isinstance(cluster.send(fetch_request(("t", 0, 2), max_wait_ms=5000, rack_id="c"), 12), Pending)


def test_a_session_tells_of_a_replica_that_comes_back_although_nothing_else_is_new(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(2)
    fields: dict[str, Any] = {"rack_id": "b", "max_wait_ms": 0}
    opened = at(cluster, 1).ask(fetch_request(("t", 0, 2), session_epoch=0, **fields), 12)
    session: dict[str, Any] = {"session_id": opened.session_id, **fields}
    assert cluster.ask(fetch_request(session_epoch=1, **session), 12).responses == []
    assert cluster.ask(fetch_request(session_epoch=2, **session), 12).responses == []
    cluster.core.cluster.start_node(2)
    for epoch in (3, 4):
        response = cluster.ask(fetch_request(session_epoch=epoch, **session), 12)
        assert only_partition(response).preferred_read_replica == 2


def test_repeated_fetches_are_sent_to_the_replica_too(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(2)
    session = at(cluster, 1).session()
    for offset in range(4):
        again = cluster.send(fetch_request(("t", 0, offset % 2), max_wait_ms=0, rack_id="b"), 12, session)
        assert only_partition(again).records
    cluster.core.cluster.start_node(2)
    for offset in range(4):
        again = cluster.send(fetch_request(("t", 0, offset % 2), max_wait_ms=0, rack_id="b"), 12, session)
        assert only_partition(again).preferred_read_replica == 2


def test_offsets_are_asked_of_the_leader_alone(cluster: Harness) -> None:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    for node_id, code in ((1, 0), (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        (answered,) = at(cluster, node_id).ask(ListOffsetsRequest(topics=[topic]), 5).topics
        assert answered.partitions[0].error_code == code


@pytest.mark.parametrize(("release", "leaders"), [("3.2", [1, 3, 2, 1]), ("3.3", [1, 3, 1, 3])])
def test_topics_are_spread_over_racks_as_the_release_does(tmp_path: Path, release: str, leaders: list[int]) -> None:
    settings = {"minibroker.emulate": release}
    with closing(Harness(str(tmp_path), settings, brokers=3, racks=["a", "a", "b"])) as cluster:
        create(cluster, partitions=4, factor=2)
        assert [partition.leader_id for partition in described(cluster, version=8)] == leaders
        assert all(3 in partition.replica_nodes for partition in described(cluster, version=8))
        growth = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=8)], timeout_ms=1000)
        assert cluster.ask(growth, 2).results[0].error_code == 0
        assert all(3 in partition.replica_nodes for partition in described(cluster, version=8))


@pytest.mark.parametrize(("release", "version"), [("3.9", 0), ("4.1", 1), ("4.4", 1)])
def test_a_group_assigns_again_when_replicas_move_to_another_rack_but_not_at_a_restart(
    tmp_path: Path, release: str, version: int
) -> None:
    settings = {"minibroker.emulate": release, "group.coordinator.rebalance.protocols": "classic,consumer"}
    with closing(Harness(str(tmp_path), settings, brokers=3, racks=["a", "a", "b"])) as cluster:
        create(cluster, by_hand=((1, 2), (2, 1)))
        consumers = Consumers(at(cluster, coordinator(cluster, "g").node_id))
        joined = consumers.beat("m", topics=["t"], version=version)
        member, epoch = joined.member_id or "m", joined.member_epoch
        assert joined.error_code == 0

        def beat() -> int:
            """Return the epoch after a heartbeat."""
            answer = consumers.beat(member, epoch, {"t": [0, 1]}, version=version)
            assert answer.error_code == 0
            return int(answer.member_epoch)

        cluster.restart()
        assert beat() == epoch
        for replicas, step in (((2, 1), 0), ((2, 3), 1)):
            moved = ReassignablePartition(partition_index=0, replicas=list(replicas))
            topics = [ReassignableTopic(name="t", partitions=[moved])]
            cluster.ask(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=1000), 0)
            assert partition(cluster).replicas == replicas
            assert beat() == epoch + step
