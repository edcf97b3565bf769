import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import heartbeat_request

every_version = pytest.mark.parametrize("version", range(5))


@every_version
def test_a_member_of_the_generation_is_welcome(version: int, members: Members) -> None:
    member = members.alone(instance="one")

    def beat(member_id: str, generation: int) -> int:
        return int(members.harness.ask(heartbeat_request("g", member_id, generation), version).error_code)

    assert beat(member, 1) == ErrorCode.NONE
    assert beat(member, 0) == beat(member, 2) == beat(member, -1) == ErrorCode.ILLEGAL_GENERATION
    assert beat("nobody", 1) == beat("", 1) == ErrorCode.UNKNOWN_MEMBER_ID


@every_version
def test_a_group_has_to_be_there_and_needs_a_name(version: int, members: Members) -> None:
    codes = [members.harness.ask(heartbeat_request(each, "m", 1), version).error_code for each in ("nowhere", "")]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", range(3, 5))
def test_a_static_member_is_known_by_both_of_its_names(version: int, members: Members) -> None:
    first = members.alone(instance="one")
    second = members.join(instance="one").member_id

    def beat(member_id: str, instance: str) -> int:
        request = heartbeat_request("g", member_id, 1, instance=instance)
        return int(members.harness.ask(request, version).error_code)

    assert beat(second, "one") == ErrorCode.NONE
    assert beat(first, "one") == ErrorCode.FENCED_INSTANCE_ID
    assert beat(second, "two") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_tells_of_a_rebalance_until_the_next_generation_has_begun(members: Members) -> None:
    first, second, generation = members.pair()
    members.leave(second)
    assert members.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    members.join(first)
    assert members.heartbeat(first, generation) == ErrorCode.ILLEGAL_GENERATION
    assert members.heartbeat(first, generation + 1) == ErrorCode.NONE  # the assignment is still to come


def test_an_empty_group_has_no_members_to_be_alive(members: Members) -> None:
    member = members.alone()
    members.leave(member)
    assert members.heartbeat(member, 2) == ErrorCode.UNKNOWN_MEMBER_ID
