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


def test_a_heartbeat_tells_of_a_rebalance_until_the_next_generation_has_begun(members: Members) -> None:
    first, second, generation = members.pair()
    members.leave(second)
    assert members.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    members.join(first)
    assert members.heartbeat(first, generation) == ErrorCode.ILLEGAL_GENERATION
    assert members.heartbeat(first, generation + 1) == ErrorCode.NONE  # the assignment is still to come
