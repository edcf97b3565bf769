"""Brokers for every room of the tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from minibroker import Broker
from tests.clients.broker_process import BrokerProcess
from tests.kafka.fixtures import kafka_libs, oracle, real_kafka
from tests.patience import PATIENCE_S
from tests.shares import place, scheduler

__all__ = ["kafka_libs", "oracle", "real_kafka"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", metavar="HOST:PORT", help="run tests/clients against this Kafka, to compare")


@pytest.hookimpl(optionalhook=True)  # there may be no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # this is one of several processes
        items.sort(key=lambda item: place(item.nodeid))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker inside this process, shared by the tests of a module."""
    with Broker(timeout=PATIENCE_S) as running:
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
