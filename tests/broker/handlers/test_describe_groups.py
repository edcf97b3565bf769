from collections.abc import Callable

import pytest

from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DescribeGroupsRequest
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import RANGE, join_request
from tests.broker.harness import Harness, frame_of

every_version = pytest.mark.parametrize("version", range(7))
ALL_OPERATIONS = 0b1101_0100_1000


@every_version
def test_a_stable_group_is_described_with_all_that_its_members_know(version: int, members: Members) -> None:
    member = members.alone(instance="one")
    (group,) = members.harness.ask(DescribeGroupsRequest(groups=["g"]), version).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (described,) = group.members
    assert described.member_id == member
    assert described.group_instance_id == ("one" if version >= 4 else None)
    assert (described.client_id, described.client_host) == ("test", "/127.0.0.1")
    assert bytes(described.member_metadata) == RANGE[0][1]
    assert bytes(described.member_assignment) == b"all"


@every_version
def test_a_group_that_is_not_known_is_dead(version: int, harness: Harness) -> None:
    groups = harness.ask(DescribeGroupsRequest(groups=["g", "", "g"]), version).groups
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert [(each.error_code, each.group_id, each.group_state) for each in groups] == [
        (code, "g", "Dead"),
        (code, "", "Dead"),
        (code, "g", "Dead"),
    ]
    assert [each.error_message for each in groups] == [
        f"Group {each} not found." if version >= 6 else None for each in ("g", "", "g")
    ]


@pytest.mark.parametrize(("release", "assignments"), [("3.9", {b""}), ("4.0", {b"", b"all"})])
def test_a_group_that_is_not_stable_tells_little_of_its_members(
    release: str, assignments: set[bytes], configured: Callable[[dict[str, str]], Harness]
) -> None:
    """Members that had an assignment still show it since Kafka 4."""
    members = Members(configured({"minibroker.emulate": release}))
    first, second, _ = members.unsynced_pair()
    group = members.describe()
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("CompletingRebalance", "consumer", "")
    assert {each.member_id for each in group.members} == {first, second}
    assert {bytes(each.member_metadata) for each in group.members} == {b""}
    assert {bytes(each.member_assignment) for each in group.members} == assignments


@pytest.mark.parametrize("version", range(3, 7))
def test_operations_are_told_if_asked(version: int, members: Members) -> None:
    members.alone()
    asked = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=True)
    groups = members.harness.ask(asked, version).groups
    # From version 6 on a group that is not known is an error.
    others = ALL_OPERATIONS if version < 6 else -(2**31)
    assert [each.authorized_operations for each in groups] == [ALL_OPERATIONS, others]
    assert members.describe().authorized_operations == -(2**31)


def test_members_are_described_with_the_host_that_they_come_from(harness: Harness) -> None:
    frame = memoryview(bytearray(frame_of(join_request("g"), 3)))
    accept(frame, harness.session(client_host="/192.0.2.7"))
    (member,) = Members(harness).describe().members
    assert member.client_host == "/192.0.2.7"
