"""A broker whose requests pass through the journal and the faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.faults.tapped import Tapped


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    """Return a broker without sockets, with a topic "t" of one partition."""
    broker = Tapped(str(tmp_path / "data"))
    yield broker
    broker.close()
