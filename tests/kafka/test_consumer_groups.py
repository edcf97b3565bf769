"""Groups of the consumer protocol, request by request: Kafka 3.9.1 and this broker answer alike, and write the same."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from tests.broker.socket_client import TIMEOUT_S
from tests.kafka.consumer_group_scripts import SCRIPTS
from tests.kafka.consumer_group_world import ConsumerWorld
from tests.kafka.real_kafka import RealKafka

_CONFIG: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.max.size": "3",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
Address = tuple[str, int]


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def prepare(address: Address) -> None:
    """Wait for the coordinator: Kafka makes its topic when it is first asked, and loads it then."""
    world = ConsumerWorld(address, "warm-up")
    end = time.monotonic() + TIMEOUT_S
    while world.find("warm-up").error_code or world.join("a").error_code != 79:
        assert time.monotonic() < end, world.transcript[-2:]
    world.close()


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    running = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, _CONFIG)
    try:
        running.start()
        prepare(_address(running.bootstrap))
        yield _address(running.bootstrap)
    finally:
        running.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[Address]:
    with Broker(config=_CONFIG) as running:
        prepare(_address(running.bootstrap_servers))
        yield _address(running.bootstrap_servers)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_answer_consumers_alike(name: str, kafka: Address, ours: Address) -> None:
    theirs = ConsumerWorld.transcript_of(kafka, SCRIPTS[name], f"group-{name}")
    assert ConsumerWorld.transcript_of(ours, SCRIPTS[name], f"group-{name}") == theirs
