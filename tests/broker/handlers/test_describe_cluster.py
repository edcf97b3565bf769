"""DescribeCluster; codes and sentences compared with Kafka 3.9.1 and 4.3.1."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import DescribeClusterRequest
from tests.broker.harness import ADVERTISED, Harness


def describe(harness: Harness, version: int = 2, **fields: Any) -> Any:
    request = DescribeClusterRequest(**{"include_cluster_authorized_operations": False, **fields})
    return harness.ask(request, version)


@pytest.fixture
def three(tmp_path: Any) -> Any:
    made = Harness(str(tmp_path / "data"), brokers=3)
    yield made
    made.close()


@pytest.mark.parametrize("version", range(3))
def test_the_broker_is_told_with_its_address_and_its_cluster(harness: Harness, version: int) -> None:
    response = describe(harness, version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, harness.core.cluster.cluster_id, 1)
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [(1, *ADVERTISED)]
    assert response.cluster_authorized_operations == -(2**31)


def test_everything_may_be_done_to_a_cluster_without_an_authorizer(harness: Harness) -> None:
    assert describe(harness, include_cluster_authorized_operations=True).cluster_authorized_operations == 8096


def test_who_looks_for_controllers_has_come_to_the_wrong_place(harness: Harness) -> None:
    response = describe(harness, 1, endpoint_type=2)
    assert (response.error_code, response.cluster_id, response.brokers) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "", [])
    assert describe(harness, 1, endpoint_type=9).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_a_broker_that_is_down_is_told_as_fenced_to_those_who_ask(three: Harness) -> None:
    three.core.cluster.stop_node(2)
    assert [each.broker_id for each in describe(three).brokers] == [1, 3]
    brokers = describe(three, include_fenced_brokers=True).brokers
    assert [(each.broker_id, each.is_fenced) for each in brokers] == [(1, False), (2, True), (3, False)]


def test_the_controller_is_another_one_once_it_is_down(three: Harness) -> None:
    three.core.cluster.stop_node(1)
    three.asks = 3
    assert describe(three).controller_id == 2
