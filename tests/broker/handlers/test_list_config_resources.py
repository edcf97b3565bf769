"""ListConfigResources: what there is to describe."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import ListConfigResourcesRequest
from tests.broker.config.configs import GROUP, METRICS, OK, put
from tests.broker.harness import Harness

EVERYTHING = [(2, "t"), (4, "1"), (8, "1"), (16, "m"), (32, "g")]


@pytest.fixture
def with_all_kinds(harness: Harness) -> Harness:
    """A broker with a configuration of every kind."""
    assert put(harness, METRICS, "m", "metrics", "*") == OK
    assert put(harness, GROUP, "g", "consumer.session.timeout.ms", "50000") == OK
    return harness


def listed(harness: Harness, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    response = harness.ask(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert response.error_code == 0
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_without_a_type_all_are_listed(with_all_kinds: Harness) -> None:
    assert sorted(listed(with_all_kinds)) == EVERYTHING


@pytest.mark.parametrize("kind", [2, 4, 8, 16, 32])
def test_one_type_is_listed_alone(with_all_kinds: Harness, kind: int) -> None:
    assert listed(with_all_kinds, kind, kind) == [pair for pair in EVERYTHING if pair[0] == kind]


def test_version_0_lists_client_metrics(with_all_kinds: Harness) -> None:
    assert listed(with_all_kinds, version=0) == [(16, "m")]


def test_what_was_taken_back_is_not_listed(with_all_kinds: Harness) -> None:
    assert put(with_all_kinds, METRICS, "m", "metrics", None) == OK
    assert listed(with_all_kinds, version=0) == []


def test_a_type_that_does_not_exist_is_refused(harness: Harness) -> None:
    response = harness.ask(ListConfigResourcesRequest(resource_types=[2, 3]), 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
