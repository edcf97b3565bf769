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
    new_group = Group("g", ManualClock(1_000))
    new_group.protocol_type = protocol_type
    for joining in members:
        new_group.add(joining)
    new_group.move_to(GroupState.PREPARING_REBALANCE)
    new_group.begin_generation()
    return new_group


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0\0\5"])
def test_topics_are_unknown_if_a_subscription_cannot_be_decoded(metadata: bytes) -> None:
    stranger = member("b")
    stranger.protocols = (Protocol("range", metadata),)
    assert group(member("a"), stranger).subscribed_topics() is None


def test_a_group_is_restored_from_its_record() -> None:
    original = group(member("a", instance="one"), member("b"))
    original.members["b"].assignment = b"mine"
    value = decode_versioned(GroupMetadataValue, encode_versioned(original.to_value(), 3))
    restored = Group("g", ManualClock(5_000))
    restored.restore(value)
    assert restored.to_value() == original.to_value()
    assert restored.is_in(GroupState.STABLE)
    assert restored.state_timestamp_ms == 1_000
    assert restored.static_members == {"one": "a"}
    assert restored.subscribed_topics() == {"t"}
    assert restored.supports("consumer", ["range"])
    empty = Group("g", ManualClock(5_000))
    empty.restore(group().to_value())
    assert (empty.state, empty.leader) == (GroupState.EMPTY, None)


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


def test_clients_without_a_generation_can_commit_to_an_empty_group() -> None:
    empty = Group("g", ManualClock())
    assert empty.validate_commit("", None, -1, is_transactional=False) is ErrorCode.NONE
    assert empty.validate_commit("m", None, -1, is_transactional=False) is ErrorCode.NONE
    assert empty.validate_commit("m", None, 0, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
    empty.move_to(GroupState.DEAD)
    assert empty.validate_commit("", None, -1, is_transactional=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE
