"""A broker with a control plane, shared by the tests of a module and reset between them."""

from collections.abc import Iterator

import pytest

from minibroker import Broker
from tests.broker.control.http import Control


@pytest.fixture(scope="module")
def controlled() -> Iterator[Broker]:
    with Broker(control="127.0.0.1:0", brokers=2, journal=True, topics=["given:2"]) as broker:
        yield broker


@pytest.fixture
def broker(controlled: Broker) -> Broker:
    controlled.reset()
    return controlled


@pytest.fixture
def control(broker: Broker) -> Control:
    control = Control(broker.control_url)
    control.ask("PUT", "/journal", {})  # an earlier test may have stopped the journal
    return control
