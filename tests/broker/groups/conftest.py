"""Groups of a broker without sockets."""

import pytest

from tests.broker.groups.driver import Members
from tests.broker.harness import Harness


@pytest.fixture
def members(harness: Harness) -> Members:
    """The members of a group "g" that nobody has joined yet."""
    return Members(harness)
