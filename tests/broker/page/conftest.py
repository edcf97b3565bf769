"""A broker with a page, shared by the tests of a module."""

import socket
from collections.abc import Iterator

import pytest

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.page.lesson_answers import lab_for


@pytest.fixture(scope="module")
def page_broker() -> Iterator[Broker]:
    with Broker(page=True, topics=["orders:2"]) as broker:
        yield broker


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield a lab for the lesson of `with_lab`."""
    with lab_for(request.param) as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    """Yield three brokers with a page."""
    with Broker(page=True, topics=["orders:2"], brokers=3) as broker:
        yield broker


@pytest.fixture
def page(page_broker: Broker) -> Control:
    """Return a client of the page's server."""
    return Control(page_broker.page_url)


@pytest.fixture
def free_address() -> str:
    """Return an address whose port is currently free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"
