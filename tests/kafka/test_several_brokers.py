"""Three brokers of Kafka 3.9.1 and three of this one's, request by request: they answer alike.

Where replicas are is said by hand, since Kafka begins at a random broker.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from tests.kafka import cluster_coordinator_scripts, cluster_outage_scripts
from tests.kafka.cluster_rack_scripts import RACK_CONFIG, RACKS
from tests.kafka.cluster_scripts import SCRIPTS
from tests.kafka.cluster_world import Brokers, ClusterWorld
from tests.kafka.real_cluster import RealCluster
from tests.kafka.real_kafka import KEEPS_RECORDS
from tests.sweeps import one_in

_CONFIG: Final = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "log.index.size.max.bytes": "65536",  # Kafka takes that much disk for every partition, thrice
    "log.retention.ms": "-1",
    "log.segment.delete.delay.ms": "1000",
    **RACK_CONFIG,
}


assert cluster_coordinator_scripts  # what they have to say is in SCRIPTS, too
assert cluster_outage_scripts

LONG = {"brokers_that_come_and_go"}
"""The scripts in which brokers are started several times: `make torture` alone takes them."""


class OurCluster:
    """Three brokers of ours."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._addresses = [each.rpartition(":") for each in broker.bootstrap_servers.split(",")]

    def address(self, node_id: int) -> tuple[str, int]:
        """Where one listens."""
        host, _, port = self._addresses[node_id - 1]
        return host, int(port)

    def stop_node(self, node_id: int) -> None:
        """Stop one."""
        self._broker.brokers[node_id].stop()

    def start_node(self, node_id: int) -> None:
        """Start it again."""
        self._broker.brokers[node_id].start()


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    cluster = RealCluster(tmp_path_factory.mktemp("kafka"), kafka_libs, _CONFIG, RACKS)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[Brokers]:
    config = {"minibroker.emulate": "3.9", "node.id": "1", **KEEPS_RECORDS, **_CONFIG}
    with Broker(racks=RACKS, config=config) as broker:
        yield OurCluster(broker)


@pytest.mark.parametrize(
    "name",
    one_in(3, [pytest.param(name, marks=pytest.mark.torture if name in LONG else ()) for name in SCRIPTS]),
)
def test_three_brokers_of_kafka_and_three_of_ours_answer_alike(name: str, kafka: Brokers, ours: Brokers) -> None:
    expected = ClusterWorld.transcript_of(ours, SCRIPTS[name], name)
    found = ClusterWorld.transcript_of(kafka, SCRIPTS[name], name, expected)
    for recorded, line in zip(expected, found, strict=False):
        assert recorded.answer == line.answer, line.asked
    assert len(found) == len(expected)
