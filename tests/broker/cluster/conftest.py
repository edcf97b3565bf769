"""Clusters without sockets, and a disk that fails."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.broker.cluster.nodes import create
from tests.broker.cluster.sick_disk import SickDisk
from tests.broker.harness import Harness


class MakeCluster(Protocol):
    """Creates brokers that share a data directory with those created before."""

    def __call__(self, brokers: int = 3, **config: str) -> Harness:
        """Create brokers. `default_replication_factor="3"` stands for default.replication.factor=3."""
        ...


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Return a function that creates brokers with a configuration."""
    with ExitStack() as ends:

        def make(brokers: int = 3, **config: str) -> Harness:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            brokers_made = Harness(str(tmp_path / "data"), settings, brokers=brokers)
            ends.callback(brokers_made.close)
            return brokers_made

        yield make


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Harness:
    """Return three brokers with ids 1 to 3 and a topic "t" of three partitions with three replicas each."""
    harness = make_cluster()
    assert create(harness).error_code == 0
    return harness


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> Iterator[SickDisk]:
    """Return the disk of all files, which works at first."""
    disk = SickDisk(monkeypatch)
    yield disk
    disk.close()
