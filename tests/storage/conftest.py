"""A log for each test."""

from pathlib import Path

import pytest

from tests.storage.helpers import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new partition with small segments."""
    return Home(tmp_path / "orders-0")
