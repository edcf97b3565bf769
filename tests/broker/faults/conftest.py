"""A broker whose requests pass by the journal and the faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.faults.tapped import Tapped


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    """A broker without sockets, with one topic "t" of one partition."""
    made = Tapped(str(tmp_path / "data"))
    yield made
    made.close()
