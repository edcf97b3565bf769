"""SyncGroup by its versions; what waiting members are told is in tests/broker/groups."""

import pytest

from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.driver import Members

every_version = pytest.mark.parametrize("version", range(6))


@every_version
def test_a_member_is_given_its_assignment(version: int, members: Members) -> None:
    member = members.new_id()
    members.join(member)
    synced = members.sync(member, 1, {member: b"all"}, version=version)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"all")
    known = ("consumer", "range") if version >= 5 else (None, None)
    assert (synced.protocol_type, synced.protocol_name) == known


@pytest.mark.parametrize(
    "protocol", [(None, "range"), ("consumer", None), ("connect", "range"), ("consumer", "sticky")]
)
def test_version_5_has_to_name_the_protocol(protocol: tuple[str | None, str | None], members: Members) -> None:
    member = members.alone()
    assert members.sync(member, 1, protocol=protocol).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert members.sync(member, 1, protocol=protocol, version=4).error_code == ErrorCode.NONE


def test_a_member_joins_again_while_the_coordinator_loads(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    member = members.alone()
    monkeypatch.setattr(GroupStore, "readiness", lambda *_: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert members.sync(member, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert members.heartbeat(member, 1) == ErrorCode.NONE
    assert members.join(member).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert members.describe().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert members.describe().group_state == ""
