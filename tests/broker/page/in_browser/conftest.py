"""A browser, shared by the tests of this folder."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.broker.page.browser import launched


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Yield a browser. Its driver runs an event loop, which must end before tests of other folders run coroutines."""
    with launched() as running:
        yield running
