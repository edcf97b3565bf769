"""Streams groups, request by request: Kafka 4.4 and this broker answer alike, in written scripts and in random ones."""

from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest

from tests.broker.socket_client import Address
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.kafka.streams_group_scripts import SCRIPTS, Script, random_script
from tests.kafka.streams_group_world import StreamsWorld
from tests.sweeps import one_in


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        "offsets.topic.num.partitions": "1",
        "group.streams.min.heartbeat.interval.ms": "100",
        "group.streams.heartbeat.interval.ms": "100",
        "group.streams.session.timeout.ms": "60000",  # no step of a script takes as long, also on a busy machine
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    }


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory: pytest.TempPathFactory, config: Mapping[str, str]) -> Iterator[Address]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(RealKafka(tmp_path_factory.mktemp("kafka"), libs, config)) as running:
        running.start()
        yield with_coordinators(running.bootstrap)


def _compare(script: Script, name: str, kafka: Address, ours: Address) -> None:
    mine, theirs = StreamsWorld.transcripts_of((ours, kafka), script, f"group-{name}")
    assert mine == theirs


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_this_broker_answer_streams_members_alike(
    name: str, kafka_address: Address, our_address: Address
) -> None:
    _compare(SCRIPTS[name], name, kafka_address, our_address)


@pytest.mark.parametrize("seed", one_in(30, range(1, 61)))
def test_random_requests_are_answered_alike(seed: int, kafka_address: Address, our_address: Address) -> None:
    _compare(random_script(seed), str(seed), kafka_address, our_address)
