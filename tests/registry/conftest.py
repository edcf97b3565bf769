"""A broker with a registry, shared by the tests of a module and reset between them."""

from collections.abc import Iterator

import pytest

from minibroker import Broker
from tests.registry.rest import Rest


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture
def broker(served: Broker) -> Broker:
    served.reset()
    return served


@pytest.fixture
def rest(broker: Broker) -> Iterator[Rest]:
    with Rest(broker.registry_url) as rest:
        yield rest
