"""Groups of the consumer protocol, request by request: Kafka and this broker answer alike, and write the same.

The Kafka is 3.9.1, and 4.4.0 for what has changed since.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

import pytest

from minibroker import Broker
from tests.broker.socket_client import Address
from tests.kafka import jars
from tests.kafka.consumer_group_scripts import SCRIPTS
from tests.kafka.consumer_group_world import ConsumerWorld, NewestWorld
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip
from tests.kafka.newest_consumer_group_scripts import CHANGED_IN_4_3, CHANGED_IN_4_4
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka
from tests.sweeps import one_in

AT_ONCE: Final = {"group.consumer.assignment.interval.ms": "0"}


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.max.size": "3",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": "15000",  # no step of a script takes as long, also on a busy machine
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }


@pytest.fixture(scope="module")
def our_config(config: Mapping[str, str]) -> dict[str, str]:
    return {**config, "minibroker.emulate": "3.9"}


@pytest.fixture(scope="module")
def newest_kafka(tmp_path_factory: pytest.TempPathFactory, config: Mapping[str, str]) -> Iterator[Address]:
    """Where a Kafka 4.4 is that assigns with each heartbeat."""
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(RealKafka(tmp_path_factory.mktemp("newest"), libs, {**config, **AT_ONCE})) as running:
        running.start()
        yield with_coordinators(running.bootstrap)


@pytest.fixture(scope="module")
def our_newest(config: Mapping[str, str]) -> Iterator[Address]:
    with Broker(config={**config, **AT_ONCE, **KEEPS_RECORDS}) as running:
        yield with_coordinators(running.bootstrap_servers)


@pytest.mark.parametrize("name", one_in(2, [*SCRIPTS, *CHANGED_IN_4_4]))
def test_kafka_and_this_broker_answer_consumers_alike(name: str, kafka_address: Address, our_address: Address) -> None:
    script = {**SCRIPTS, **CHANGED_IN_4_4}[name]
    ours, theirs = ConsumerWorld.transcripts_of((our_address, kafka_address), script, f"group-{name}")
    assert ours == theirs


@pytest.mark.parametrize("name", one_in(3, SCRIPTS))
def test_kafka_4_4_and_this_broker_answer_the_same_requests_alike(
    name: str, newest_kafka: Address, our_newest: Address
) -> None:
    ours, theirs = NewestWorld.transcripts_of((our_newest, newest_kafka), SCRIPTS[name], f"group-{name}")
    assert ours == theirs


@pytest.mark.parametrize("name", [*CHANGED_IN_4_3, *CHANGED_IN_4_4])
def test_kafka_4_4_and_this_broker_answer_consumers_alike(
    name: str, newest_kafka: Address, our_newest: Address
) -> None:
    script = {**CHANGED_IN_4_3, **CHANGED_IN_4_4}[name]
    ours, theirs = ConsumerWorld.transcripts_of((our_newest, newest_kafka), script, f"group-{name}")
    assert ours == theirs
