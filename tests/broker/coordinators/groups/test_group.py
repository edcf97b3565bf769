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
    """A member that offers some protocols, all with the same subscription."""
    offers = tuple(Protocol(name, subscription(*topics)) for name in protocols or ("range",))
    return Member(member_id, instance, "client", "/127.0.0.1", 60_000, 10_000, offers)


def group(*members: Member, protocol_type: str = "consumer") -> Group:
    """A group whose members have just begun a generation."""
    made = Group("g", ManualClock(1_000))
    made.protocol_type = protocol_type
    for each in members:
        made.add(each)
    made.move_to(GroupState.PREPARING_REBALANCE)
    made.begin_generation()
    return made


def test_the_first_member_leads_and_then_the_one_that_has_been_there_longest() -> None:
    made = group(member("a"), member("b"), member("c"))
    assert made.leader == "a"
    made.remove("b")
    assert made.leader == "a"
    made.remove("a")
    assert made.leader == "c"
    made.remove("c")
    assert made.leader is None


def test_most_votes_decide_among_the_protocols_that_all_offer() -> None:
    made = group(
        member("a", "only-a", "range", "sticky"), member("b", "sticky", "range"), member("c", "sticky", "range")
    )
    assert made.protocol_name == "sticky"


def test_a_protocol_that_somebody_does_not_offer_cannot_win() -> None:
    made = group(member("a", "new", "old"), member("b", "new", "old"), member("c", "old"))
    assert made.protocol_name == "old"
    assert not made.supports("consumer", ["new"])
    assert made.supports("consumer", ["new", "old"])
    assert not made.supports("connect", ["old"])


def test_an_empty_group_supports_whatever_has_a_name() -> None:
    made = Group("g", ManualClock())
    assert made.supports("anything", ["x"])
    assert not made.supports("", ["x"])
    assert not made.supports("consumer", [])


def test_topics_are_those_of_all_members_of_the_generation() -> None:
    made = group(member("a", topics=("t", "u")), member("b", topics=("v",)))
    made.members["a"].protocols = ()  # what they say now is for the next generation
    assert made.subscribed_topics() == {"t", "u", "v"}
    assert made.subscribed_topics() == {"t", "u", "v"}


def test_an_empty_group_of_consumers_reads_no_topics() -> None:
    made = group()
    assert (made.state, made.subscribed_topics()) == (GroupState.EMPTY, set())


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0\0\0\5"])
def test_topics_are_unknown_when_a_member_does_not_speak_the_consumer_protocol(metadata: bytes) -> None:
    stranger = member("b")
    stranger.protocols = (Protocol("range", metadata),)
    assert group(member("a"), stranger).subscribed_topics() is None


def test_topics_are_unknown_for_members_that_are_no_consumers() -> None:
    assert group(member("a"), protocol_type="connect").subscribed_topics() is None
    assert Group("g", ManualClock()).subscribed_topics() is None


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
