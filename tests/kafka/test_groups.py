"""Consumer groups, request by request: Kafka 3.9.1 and this broker answer alike and write the same records."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.socket_client import TIMEOUT_S
from tests.kafka import static_member_scripts
from tests.kafka.group_scripts import SCRIPTS
from tests.kafka.group_world import COMMITTED, World
from tests.kafka.real_kafka import RealKafka

_CONFIG: Final = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "3",
    "offsets.topic.num.partitions": "1",
}
Address = tuple[str, int]

assert static_member_scripts  # what it has to say is in SCRIPTS, too


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _prepare(address: Address) -> None:
    """Wait for the coordinators: Kafka makes their topics when it is first asked, and loads them then."""
    world = World(address, "warm-up")
    end = time.monotonic() + TIMEOUT_S
    while world.find("warm-up").error_code or world.find("warm-up", 1).error_code or world.join("a").error_code != 79:
        assert time.monotonic() < end, world.transcript[-2:]
    wanted = CreatableTopic(name=COMMITTED, num_partitions=1, replication_factor=1)
    world.ask("a", CreateTopicsRequest(topics=[wanted]), 5)
    world.close()


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    running = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, _CONFIG)
    try:
        running.start()
        _prepare(_address(running.bootstrap))
        yield _address(running.bootstrap)
    finally:
        running.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[Address]:
    with Broker(config=_CONFIG) as running:
        _prepare(_address(running.bootstrap_servers))
        yield _address(running.bootstrap_servers)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_answer_members_of_groups_alike(name: str, kafka: Address, ours: Address) -> None:
    theirs = World.transcript_of(kafka, SCRIPTS[name], f"group-{name}")
    assert World.transcript_of(ours, SCRIPTS[name], f"group-{name}") == theirs
