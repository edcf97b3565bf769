"""Fixtures shared by all tests: brokers in this process and in others."""

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has no types

from minibroker import Broker
from minibroker.broker import checked_options
from minibroker.operations import groups
from tests.clients.broker_process import ROOT, BrokerProcess
from tests.kafka.fixtures import end_shared_kafkas, kafka_libs, newest_kafka, oracle, real_kafka
from tests.patience import NO_RETENTION, PATIENCE_S

__all__ = ["kafka_libs", "newest_kafka", "oracle", "real_kafka"]

TOOLCHAINS: Final = frozenset({"browser", "kafka_libs", "newest_kafka", "re2", "site", "spark"})
"""Fixtures that start Java, a browser or a compiler. Tests that use one of them get the marker `toolchain`."""

SHARED_NEEDS: Final = {
    "spark: SparkSession": "spark",
    '"fixed_ports"': "ports",
    "import Project": "ports",
    "groups_kafka: Address": "groups",
    "real_kafka: RealKafka": "kafka",
    "newest_kafka: RealKafka": "kafka",
    '"real_kafka")': "kafka",
}
"""What files share that run in the same process, by a text in them."""

# Hypothesis must not fail on a slow machine. `make check` and `make torture` choose another profile.
_patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], derandomize=True
)
settings.register_profile("check", _patient, max_examples=8)
settings.register_profile("test", _patient, max_examples=16)
settings.register_profile("torture", _patient, max_examples=100, derandomize=False)
settings.load_profile("test")


class SharingInOneProcess(LoadFileScheduling):  # type: ignore[misc]  # the same
    """Distributes files to processes: all files that need Spark to the same one, and those that share something else.

    A Spark takes ten seconds of CPU time to start, and is several times slower until its JVM has compiled its code. A
    Kafka takes four, and the browser two. Files with containers that publish the same ports would wait for each other
    in several processes.
    """

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the unit of work that a test belongs to."""
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return folder if folder.endswith("/in_browser") else _shared_need(file) or file


@functools.cache
def _shared_need(file: str) -> str | None:
    text = (ROOT / file).read_text()
    return next((need for sign, need in SHARED_NEEDS.items() if sign in text), None)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End Kafkas that the next file does not share."""
    if nextitem is None or (nextitem.path != item.path and _shared_need(str(nextitem.path)) not in {"kafka", "groups"}):
        end_shared_kafkas()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return SharingInOneProcess(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", metavar="HOST:PORT", help="run tests/clients against this Kafka, to compare")


def pytest_collection(session: pytest.Session) -> None:
    """Stop the garbage collector, which would scan thousands of tests repeatedly."""
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
    """Let brokers in this process wait as long as a busy machine needs, unless a test sets a timeout."""
    with ExitStack() as patched:
        for module in (checked_options, groups):
            patched.enter_context(patch.object(module, "DEFAULT_TIMEOUT", PATIENCE_S))
        yield


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in this process, shared by the tests of a module."""
    with Broker(config=NO_RETENTION, timeout=PATIENCE_S) as running:
        yield running


@pytest.fixture
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    """A function that starts a broker in another process, with options of `minibroker serve`."""
    with ExitStack() as ends:

        def start(*options: str) -> BrokerProcess:
            process = BrokerProcess(tmp_path_factory.mktemp("broker"), options)
            ends.callback(process.close)
            process.start()
            return process

        yield start
