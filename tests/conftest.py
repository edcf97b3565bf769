"""Brokers for every room of the tests."""

import gc
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import settings

from minibroker import Broker
from minibroker.broker import checked_options
from minibroker.operations import groups
from tests import memory_folder, samples, tools
from tests.clients.broker_process import BrokerProcess
from tests.kafka import jars
from tests.kafka.fixtures import kafka_libs, newest_kafka, oracle, real_kafka
from tests.patience import NO_RETENTION, PATIENCE_S
from tests.shares import place, scheduler

__all__ = ["kafka_libs", "newest_kafka", "oracle", "real_kafka"]

WATCH = pytest.StashKey[tools.Watch]()
"""The watch on the programs that tests start, in a run of all tests."""
STARTED = pytest.StashKey[list[str]]()
"""The hidden tools that a run with `--python-alone` has started."""
COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""The tests that a sample was taken of."""
FAILED = pytest.StashKey[bool]()
"""Whether a test has failed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", metavar="HOST:PORT", help="run tests/clients against this Kafka, to compare")
    parser.addoption("--python-alone", action="store_true", help="leave out tests that need Java or another toolchain")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "in_torture: make torture alone takes this test")
    config.addinivalue_line("markers", "not_in_check: make test takes this test, and make check does not")
    config.addinivalue_line("markers", "each_row: make test takes this test with each value of its parameters")
    if config.getoption("--python-alone"):
        os.environ.setdefault(samples.SWEEPS, samples.FEW)
    # By itself Hypothesis fails an example that takes 200 ms, or is slow to make: a loaded machine does both.
    settings.register_profile("patient", samples.examples(whole=100, sample=25))
    settings.load_profile("patient")
    if not is_worker(config):
        use_memory(config)
    if config.getoption("--python-alone") and not is_worker(config):
        folder = tempfile.TemporaryDirectory(prefix="minibroker-check-")
        config.add_cleanup(folder.cleanup)
        tools.hide(Path(folder.name), os.environ)
    if not config.getoption("--python-alone"):
        watch = config.stash[WATCH] = tools.Watch(jars.cache_dir().parent)
        watch.install()


def use_memory(config: pytest.Config) -> None:
    """Have temporary files in memory, unless somebody has said where they are to be."""
    chosen = config.getoption("basetemp") or {"TMPDIR", "PYTEST_DEBUG_TEMPROOT"} & os.environ.keys()
    place = None if chosen else memory_folder.find()
    if place is None:
        return
    folder = memory_folder.make(place, os.environ)

    def release() -> None:
        kept = memory_folder.release(folder, os.environ, keep=config.stash.get(FAILED, False))
        if kept is not None:
            print(f"{folder} is now {kept}")  # noqa: T201 - the reporter has ended by now

    config.add_cleanup(release)


def is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes that share the tests."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(optionalhook=True)  # there may be no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduler(config, log)


def pytest_collection(session: pytest.Session) -> None:
    """Thousands of tests are no garbage: to look through them time and again takes a third of collecting them."""
    del session
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Nor is any of it garbage while the tests run."""
    del session
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--python-alone"):
        needing = [item for item in items if tools.needs_tools(item.nodeid, fixtures_of(item))]
        config.hook.pytest_deselected(items=needing)
        left_out = set(needing)
        items[:] = [item for item in items if item not in left_out]
    if not samples.WHOLE and not names_tests(config):
        sampled = samples.left_out(items, quick=config.getoption("--python-alone"))
        config.stash[COLLECTED] = list(items)
        config.hook.pytest_deselected(items=sampled)
        left_out = set(sampled)
        items[:] = [item for item in items if item not in left_out]
    if is_worker(config):
        items.sort(key=lambda item: place(item.nodeid))


def names_tests(config: pytest.Config) -> bool:
    """Whether a run was asked for certain tests, and not for files: those run, whatever the sample is."""
    return bool(config.getoption("keyword")) or any("::" in name for name in config.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    watch = item.config.stash.get(WATCH, None)
    if watch is None:
        return (yield)
    watch.running = (item.nodeid, fixtures_of(item))
    try:
        return (yield)
    finally:
        watch.running = None


def fixtures_of(item: pytest.Item) -> list[str]:
    """The fixtures of a test, and those that they ask for."""
    return cast("list[str]", getattr(item, "fixturenames", []))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[FAILED] = exitstatus == pytest.ExitCode.TESTS_FAILED
    if session.config.getoption("--python-alone") and not is_worker(session.config):
        if begun := tools.started(os.environ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.stash[STARTED] = begun


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if begun := config.stash.get(STARTED, []):
        terminalreporter.section("tools that tests without tools have started", red=True)
        for line in begun:
            terminalreporter.line(line)


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
