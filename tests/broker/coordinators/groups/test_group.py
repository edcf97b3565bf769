import pytest

from minibroker.clock import ManualClock
from minibroker.coordinators.groups.classic.group import Group, GroupState, Member, Protocol
from minibroker_protocol.coordinator_records import (
    GroupMetadataValue,
    MemberMetadata,
    decode_versioned,
    encode_versioned,
)
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.member_requests import subscription


def member(member_id: str, *protocols: str, instance: str | None = None, topics: tuple[str, ...] = ("t",)) -> Member:
    """Return a member that supports some protocols, all with the same subscription."""
    offers = tuple(Protocol(name, subscription(*topics)) for name in protocols or ("range",))
    return Member(member_id, instance, "client", "/127.0.0.1", 60_000, 10_000, offers)


def group(*members: Member, protocol_type: str = "consumer") -> Group:
    """Return a group whose members have just begun a generation."""
    made = Group("g", ManualClock(1_000))
    made.protocol_type = protocol_type
    for each in members:
        made.add(each)
    made.move_to(GroupState.PREPARING_REBALANCE)
    made.begin_generation()
    return made


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0\0\5"])
def test_topics_are_unknown_when_a_member_does_not_speak_the_consumer_protocol(metadata: bytes) -> None:
    stranger = member("b")
    stranger.protocols = (Protocol("range", metadata),)
    assert group(member("a"), stranger).subscribed_topics() is None


def test_a_group_is_restored_from_its_record() -> None:
    made = group(member("a", instance="one"), member("b"))
    made.members["b"].assignment = b"mine"
    value = decode_versioned(GroupMetadataValue, encode_versioned(made.to_value(), 3))
    restored = Group("g", ManualClock(5_000))
    restored.restore(value)
    assert restored.to_value() == made.to_value()
    assert restored.is_in(GroupState.STABLE)
    assert restored.state_timestamp_ms == 1_000
    assert restored.static_members == {"one": "a"}
    assert restored.subscribed_topics() == {"t"}
    assert restored.supports("consumer", ["range"])
    restored.restore(group().to_value())
    assert restored.is_in(GroupState.EMPTY)
    assert (restored.leader, restored.static_members) == (None, {})


def test_a_record_of_version_0_has_neither_a_rebalance_timeout_nor_a_time() -> None:
    described = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=7_000, subscription=b"", assignment=b""
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m", members=[described]
    )
    restored = Group("g", ManualClock())
    restored.restore(decode_versioned(GroupMetadataValue, encode_versioned(value, 0)))
    assert restored.rebalance_timeout_ms == 7_000
    assert restored.state_timestamp_ms is None
    assert restored.to_value().current_state_timestamp == -1


def test_whoever_names_no_generation_commits_to_a_group_without_members() -> None:
    made = Group("g", ManualClock())
    assert made.validate_commit("", None, -1, is_transactional=False) is ErrorCode.NONE
    assert made.validate_commit("m", None, -1, is_transactional=False) is ErrorCode.NONE
    assert made.validate_commit("m", None, 0, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
    made.move_to(GroupState.DEAD)
    assert made.validate_commit("", None, -1, is_transactional=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE
