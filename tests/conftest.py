"""Brokers for every room of the tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from minibroker import Broker
from tests.clients.broker_process import BrokerProcess
from tests.kafka.fixtures import kafka_libs, oracle, real_kafka

__all__ = ["kafka_libs", "oracle", "real_kafka"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", metavar="HOST:PORT", help="run tests/clients against this Kafka, to compare")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker inside this process, shared by the tests of a module."""
    with Broker() as running:
        yield running


@pytest.fixture
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    """A function that starts a broker in a process of its own; it takes options of `minibroker serve`."""
    with ExitStack() as ends:

        def start(*options: str) -> BrokerProcess:
            process = BrokerProcess(tmp_path_factory.mktemp("broker"), options)
            ends.callback(process.close)
            process.start()
            return process

        yield start
