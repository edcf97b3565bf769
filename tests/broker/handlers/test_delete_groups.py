import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from tests.broker.coordinators.groups.driver import Members
from tests.broker.harness import Harness


@pytest.mark.parametrize("version", range(4))
def test_groups_without_members_are_deleted(version: int, harness: Harness) -> None:
    members, other = Members(harness), Members(harness, "other")
    members.leave(members.alone())
    other.alone()
    names = ["g", "nowhere", "other", "g", ""]
    results = harness.ask(DeleteGroupsRequest(groups_names=names), version).results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("g", 0),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
        ("other", ErrorCode.NON_EMPTY_GROUP),
        ("", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert (members.state, other.state) == ("Dead", "Stable")


def test_an_id_that_was_given_by_a_deleted_group_is_worth_nothing(harness: Harness) -> None:
    members = Members(harness)
    given = members.new_id(session_ms=7_000)
    (deleted,) = harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == 0
    assert members.join(given).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    again = members.new_id()
    harness.clock.advance(7_000)
    assert members.join(again).error_code == 0
