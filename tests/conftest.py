"""Brokers for every room of the tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.clients.broker_process import BrokerProcess

if TYPE_CHECKING:
    from minibroker import Broker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", metavar="HOST:PORT", help="run tests/clients against this Kafka, to compare")


@pytest.fixture(scope="module")
def broker() -> "Iterator[Broker]":
    """A broker inside this process, shared by the tests of a module."""
    from minibroker import Broker  # noqa: PLC0415 - tests of the rooms below run without the broker

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
