"""Brokers for every room of the tests."""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from minibroker import Broker
from minibroker.broker import checked_options
from minibroker.operations import groups
from tests.clients.broker_process import BrokerProcess
from tests.kafka.fixtures import kafka_libs, newest_kafka, oracle, real_kafka
from tests.patience import NO_RETENTION, PATIENCE_S

__all__ = ["kafka_libs", "newest_kafka", "oracle", "real_kafka"]

TOOLCHAINS: Final = frozenset({"browser", "kafka_libs", "newest_kafka", "re2", "site", "spark"})
"""The fixtures that start Java, a browser or a compiler. Tests with one of them get the marker `toolchain`."""

# Hypothesis must not fail a slow machine. `make check` and `make torture` choose another profile on the command line.
_patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], derandomize=True
)
settings.register_profile("check", _patient, max_examples=8)
settings.register_profile("test", _patient, max_examples=25)
settings.register_profile("torture", _patient, max_examples=100, derandomize=False)
settings.load_profile("test")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", metavar="HOST:PORT", help="run tests/clients against this Kafka, to compare")


def pytest_collection(session: pytest.Session) -> None:
    """Stop the garbage collector, which would look through thousands of tests again and again."""
    del session
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exempt the tests from garbage collection."""
    del session
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures."""
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if not TOOLCHAINS.isdisjoint(fixtures):
            item.add_marker("toolchain")


@pytest.fixture(scope="session", autouse=True)
def patient_brokers() -> Iterator[None]:
    """Brokers inside this process wait as long as a busy machine needs, where a test does not say how long."""
    with ExitStack() as patched:
        for module in (checked_options, groups):
            patched.enter_context(patch.object(module, "DEFAULT_TIMEOUT", PATIENCE_S))
        yield


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker inside this process, shared by the tests of a module."""
    with Broker(config=NO_RETENTION, timeout=PATIENCE_S) as running:
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
