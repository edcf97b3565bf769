"""Committed offsets, request by request: Kafka 3.9.1 and this broker answer alike and write the same records."""

import time
from collections.abc import Iterator

import pytest

from minibroker import Broker
from tests.broker.socket_client import TIMEOUT_S
from tests.broker.transactions.producer import init_producer_id
from tests.kafka.group_world import World
from tests.kafka.offset_scripts import SCRIPTS, OffsetWorld
from tests.kafka.real_kafka import RealKafka

Address = tuple[str, int]


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _wait_for_the_coordinators(address: Address) -> None:
    """Kafka makes the topics of its coordinators when it is first asked, and loads them then."""
    world = World(address, "warm-up")
    end = time.monotonic() + TIMEOUT_S
    while (
        world.find("warm-up").error_code
        or world.find("warm-up", 1).error_code
        or world.join("a").error_code != 79
        or init_producer_id(world.client("a"), "warm-up").error_code
    ):
        assert time.monotonic() < end, world.transcript[-2:]
    world.close()


@pytest.fixture(scope="module")
def kafka(real_kafka: RealKafka) -> Address:
    _wait_for_the_coordinators(_address(real_kafka.bootstrap))
    return _address(real_kafka.bootstrap)


@pytest.fixture(scope="module")
def ours() -> Iterator[Address]:
    with Broker(config={"offsets.topic.num.partitions": "1"}) as running:
        _wait_for_the_coordinators(_address(running.bootstrap_servers))
        yield _address(running.bootstrap_servers)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_keep_committed_offsets_alike(name: str, kafka: Address, ours: Address) -> None:
    theirs = OffsetWorld.transcript_of(kafka, SCRIPTS[name], f"offsets-{name}")
    assert OffsetWorld.transcript_of(ours, SCRIPTS[name], f"offsets-{name}") == theirs
