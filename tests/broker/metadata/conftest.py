from collections.abc import Iterator

import pytest

from tests.broker.metadata.sick_disk import SickDisk


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> Iterator[SickDisk]:
    """The disk of all files, which is well at first."""
    disk = SickDisk(monkeypatch)
    yield disk
    disk.close()
