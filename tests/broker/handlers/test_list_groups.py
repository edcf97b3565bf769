from collections.abc import Callable

import pytest

from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import ListGroupsRequest
from tests.broker.coordinators.groups.driver import Members
from tests.broker.harness import Harness


@pytest.fixture
def groups(harness: Harness) -> Harness:
    """A broker with an empty, a stable and a rebalancing group."""
    Members(harness, "empty").new_id()
    Members(harness, "stable").alone()
    Members(harness, "rebalancing").unsynced_pair()
    return harness


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(version: int, groups: Harness) -> None:
    response = groups.ask(ListGroupsRequest(), version)
    assert response.error_code == 0
    listed = {each.group_id: each for each in response.groups}
    assert {name: each.protocol_type for name, each in listed.items()} == {
        "empty": "",
        "stable": "consumer",
        "rebalancing": "consumer",
    }
    states = {name: each.group_state for name, each in listed.items()}
    known = {"empty": "Empty", "stable": "Stable", "rebalancing": "CompletingRebalance"}
    assert states == (known if version >= 4 else dict.fromkeys(known, ""))
    assert {each.group_type for each in response.groups} == {"classic" if version >= 5 else ""}


def test_groups_of_earlier_runs_are_listed_though_nobody_has_asked_for_them(groups: Harness) -> None:
    groups.restart()
    groups.run_soon()
    assert {each.group_id for each in groups.ask(ListGroupsRequest(), 5).groups} == {"empty", "stable", "rebalancing"}


@pytest.mark.parametrize(
    ("config", "listed"),
    [
        ({"offsets.topic.num.partitions": "1"}, [2, 4, 1, 3, 5]),
        ({"offsets.topic.num.partitions": "5"}, [3, 1, 2, 4, 5]),
        ({"offsets.topic.num.partitions": "1", "minibroker.emulate": "3.9"}, [1, 2, 3, 4, 5]),
    ],
)
def test_groups_are_listed_in_the_order_of_kafkas_hash_tables(
    config: dict[str, str], listed: list[int], configured: Callable[[dict[str, str]], Harness]
) -> None:
    harness = configured(config)
    for number in range(1, 6):
        Members(harness, f"grp-{number}").alone()
    groups = harness.ask(ListGroupsRequest(), 5).groups
    assert [each.group_id for each in groups] == [f"grp-{number}" for number in listed]


def test_a_list_that_is_not_all_says_so(groups: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupStore, "is_loading", True)
    response = groups.ask(ListGroupsRequest(), 5)
    assert (response.error_code, len(response.groups)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3)
