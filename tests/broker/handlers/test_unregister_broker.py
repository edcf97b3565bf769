"""UnregisterBroker; codes and sentences compared with Kafka 4.3.1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import DescribeClusterRequest, UnregisterBrokerRequest
from tests.broker.cluster.nodes import create, leader
from tests.broker.harness import Harness


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers, and a topic "t"."""
    made = Harness(str(tmp_path / "data"), brokers=3)
    create(made, by_hand=((3, 1, 2),))
    yield made
    made.close()


def unregister(harness: Harness, broker: int) -> tuple[int, str | None]:
    response = harness.ask(UnregisterBrokerRequest(broker_id=broker), 0)
    return response.error_code, response.error_message


def registered(harness: Harness) -> list[int]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
    response: Any = harness.ask(request, 2)
    return [each.broker_id for each in response.brokers]


@pytest.mark.parametrize("broker", [7, -1])
def test_a_broker_that_there_is_not_is_not_registered(cluster: Harness, broker: int) -> None:
    expected = ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker} is not currently registered"
    assert unregister(cluster, broker) == expected


def test_a_broker_that_is_down_is_forgotten_until_it_is_started(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(3)
    assert unregister(cluster, 3) == (0, None)
    assert registered(cluster) == [1, 2]
    assert unregister(cluster, 3)[0] == ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.core.cluster.start_node(3)
    assert registered(cluster) == [1, 2, 3]


def test_a_broker_that_is_up_goes_down(cluster: Harness) -> None:
    assert unregister(cluster, 3) == (0, None)
    assert not cluster.core.cluster.nodes[3].is_up
    assert leader(cluster) == 1
