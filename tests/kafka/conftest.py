"""Kafka and this broker, configured alike, for tests that ask both of them the same."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from tests.broker.socket_client import Address
from tests.clients.broker_process import BrokerProcess
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip, shared_kafka
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka

_STATES: Final = "share.coordinator.state.topic"
GROUPS: Final = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.max.size": "3",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "15000",  # no step of a script takes as long, also on a busy machine
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    f"{_STATES}.replication.factor": "1",
    f"{_STATES}.min.isr": "1",
    f"{_STATES}.num.partitions": "1",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.initialize.retry.interval.ms": "200",  # the first try finds the share coordinator loading
    "group.share.session.timeout.ms": "60000",  # the same
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.record.lock.duration.ms": "600000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""Of the Kafka that the tests of groups share."""


@pytest.fixture(scope="module")
def config() -> Mapping[str, str]:
    """The configuration of both; modules that want another one have a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def kafka_address(
    kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, config: Mapping[str, str]
) -> Iterator[Address]:
    """Where a Kafka is whose coordinators are ready."""
    with closing(RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, config)) as running:
        running.start()
        yield with_coordinators(running.bootstrap)


@pytest.fixture(scope="module")
def our_config(config: Mapping[str, str]) -> Mapping[str, str]:
    """The configuration of ours; modules in which it is more than Kafka's have a fixture of this name."""
    return config


@pytest.fixture(scope="module")
def our_address(our_config: Mapping[str, str]) -> Iterator[Address]:
    """Where a broker of ours is."""
    with Broker(config={**KEEPS_RECORDS, **our_config}) as running:
        yield with_coordinators(running.bootstrap_servers)


@pytest.fixture(scope="module")
def groups_kafka(tmp_path_factory: pytest.TempPathFactory) -> Address:
    """Where the newest Kafka is, configured for groups of all kinds."""
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    return with_coordinators(shared_kafka(tmp_path_factory, libs, GROUPS).bootstrap)


@pytest.fixture(scope="module")
def our_groups() -> Iterator[Address]:
    """Where a broker of ours is, configured in the same way."""
    with Broker(config={**KEEPS_RECORDS, **GROUPS}) as running:
        yield with_coordinators(running.bootstrap_servers)


@pytest.fixture
def kafka(kafka_libs: Path, tmp_path: Path, config: Mapping[str, str]) -> Iterator[RealKafka]:
    """A Kafka that a test starts, stops and kills."""
    with closing(RealKafka(tmp_path / "kafka", kafka_libs, config)) as running:
        yield running


@pytest.fixture
def ours(tmp_path: Path, our_config: Mapping[str, str]) -> Iterator[BrokerProcess]:
    """A broker of ours that a test starts, stops and kills."""
    (tmp_path / "ours").mkdir()
    options = [f"--set={name}={value}" for name, value in our_config.items()]
    with closing(BrokerProcess(tmp_path / "ours", options)) as running:
        yield running
