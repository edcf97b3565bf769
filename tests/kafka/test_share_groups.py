"""Share groups, request by request: Kafka 4.4 and this broker answer alike, in written scripts and in random ones."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final

import pytest

from tests.broker.socket_client import Address
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.dead_letter_scripts import DEAD_LETTER_SCRIPTS
from tests.kafka.dead_letter_world import DeadLetterWorld
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.kafka.share_group_scripts import SCRIPTS, random_script
from tests.sweeps import one_in

_ALL: Final = {**SCRIPTS, **DEAD_LETTER_SCRIPTS}
_STATES: Final = "share.coordinator.state.topic"


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        f"{_STATES}.replication.factor": "1",
        f"{_STATES}.min.isr": "1",
        f"{_STATES}.num.partitions": "1",
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "100",
        "group.share.assignment.interval.ms": "0",
        "group.share.initialize.retry.interval.ms": "200",  # the first try finds the share coordinator loading
        "group.share.session.timeout.ms": "60000",  # no step of a script takes as long, also on a busy machine
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.max.record.lock.duration.ms": "600000",
    }


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory: pytest.TempPathFactory, config: Mapping[str, str]) -> Iterator[Address]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(RealKafka(tmp_path_factory.mktemp("kafka"), libs, config)) as running:
        running.start()
        yield with_coordinators(running.bootstrap)


def _compare(script: Callable[[DeadLetterWorld], None], name: str, kafka: Address, ours: Address) -> None:
    fresh = f"group-{name}-{os.urandom(3).hex()}"  # also when a test is tried again
    mine, theirs = DeadLetterWorld.transcripts_of((ours, kafka), script, fresh)
    assert mine == theirs


@pytest.mark.parametrize("name", _ALL)
def test_kafka_and_this_broker_answer_share_consumers_alike(
    name: str, kafka_address: Address, our_address: Address
) -> None:
    _compare(_ALL[name], name, kafka_address, our_address)


@pytest.mark.parametrize("seed", one_in(100, range(1, 201)))
def test_random_requests_are_answered_alike(seed: int, kafka_address: Address, our_address: Address) -> None:
    _compare(random_script(seed), str(seed), kafka_address, our_address)
