"""Fixtures for brokers without sockets."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from minibroker.cluster.logs import chores
from minibroker_storage.log import Log
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.transactions import disk as disks
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import Harness
from tests.broker.logs.world import Openings


@pytest.fixture(scope="module", autouse=True)
def whole_chores() -> Iterator[None]:
    """Disable time slices of background tasks, which a busy machine would end after any step."""
    with patch.object(chores, "_SLICE_S", math.inf):
        yield


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A broker without sockets that has a topic "t" with one partition."""
    harness = Harness(str(tmp_path / "data"))
    harness.create()
    yield harness
    harness.services.close()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Harness]]:
    """A function that creates a broker without sockets from a configuration, with a topic "t" of one partition."""
    with ExitStack() as ends:

        def make(config: dict[str, str]) -> Harness:
            harness = Harness(str(tmp_path / "data"), config)
            ends.callback(harness.close)
            harness.create()
            return harness

        yield make


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    """Return a broker whose requests pass through the journal and the faults, with a topic "t" of one partition."""
    broker = Tapped(str(tmp_path / "data"))
    yield broker
    broker.close()


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers without sockets, with a topic "t" of one partition."""
    harness = Harness(str(tmp_path / "data"), brokers=3)
    harness.create()
    yield harness
    harness.close()


@pytest.fixture(params=["restart", "crash"])
def again(request: pytest.FixtureRequest) -> Callable[[Harness], None]:
    """A function that restarts a broker, after a clean stop or after kill -9."""
    return {"restart": Harness.restart, "crash": Harness.crash}[request.param]


@pytest.fixture
def members(harness: Harness) -> Members:
    """The members of a group "g", which is still empty."""
    return Members(harness)


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Openings:
    """The arguments with which logs were opened."""
    openings = Openings()
    monkeypatch.setattr(Log, "open", openings.open)
    return openings


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """A function that returns the logged errors."""
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> disks.Disk:
    """A disk that can refuse writes to chosen partitions."""
    return disks.install(monkeypatch)
