import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import leave_request

STRANGER = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3))
def test_old_members_leave_alone(version: int, members: Members) -> None:
    member = members.alone()
    assert members.harness.ask(leave_request("g", ("nobody", None)), version).error_code == STRANGER
    assert members.harness.ask(leave_request("g", (member, None)), version).error_code == 0
    assert members.state == "Empty"
    assert members.harness.ask(leave_request("nowhere", (member, None)), version).error_code == STRANGER
    assert members.harness.ask(leave_request("", (member, None)), version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_many_members_leave_at_once_each_with_an_outcome_of_its_own(version: int, members: Members) -> None:
    static = members.alone(instance="one")
    pending, lost = members.new_id(), members.new_id()
    leaving = [("", "one"), ("", "two"), ("", None), (pending, None), (lost, "any"), ("nobody", None), (static, "one")]
    response = members.harness.ask(leave_request("g", *leaving), version)
    assert response.error_code == 0
    assert [(each.member_id, each.group_instance_id) for each in response.members] == leaving
    assert [each.error_code for each in response.members] == [0, STRANGER, STRANGER, 0, 0, STRANGER, STRANGER]
    assert members.state == "Empty"
    assert members.harness.ask(leave_request("", (static, None)), version).error_code == ErrorCode.INVALID_GROUP_ID


def test_nobody_without_a_name_is_taken_for_the_instance_without_a_name(members: Members) -> None:
    members.alone(instance="")
    assert members.leave(("", None)) == [STRANGER]
    assert members.leave(("", "")) == [0]
