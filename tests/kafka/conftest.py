"""Kafka and this broker, configured alike, for tests that ask both of them the same."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from minibroker import Broker
from tests.broker.socket_client import Address
from tests.clients.broker_process import BrokerProcess
from tests.kafka.coordinators import with_coordinators
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka


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
