"""A log for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker_storage.files import FilePool
from tests.storage.helpers import Disk, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new partition with small segments."""
    return Home(tmp_path / "orders-0")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return a disk that can fail or write only a part."""
    return Disk(monkeypatch)


@pytest.fixture(autouse=True)
def _descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the descriptors of logs that a test abandons as in a crash."""
    pools: list[FilePool] = []
    real = FilePool.__init__

    def init(self: FilePool, capacity: int) -> None:
        real(self, capacity)
        pools.append(self)

    monkeypatch.setattr(FilePool, "__init__", init)
    yield
    for pool in pools:
        for handle in list(pool._open):
            handle.evict()
