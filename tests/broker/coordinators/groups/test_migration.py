"""Groups that migrate between the classic and the consumer protocol, and groups with members of both."""

from collections.abc import Callable
from typing import Any

import pytest

from minibroker_protocol.coordinator_records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.consumers import REBALANCE_MS, Consumers
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import SESSION_MS
from tests.broker.harness import Harness

Configured = Callable[[dict[str, str]], Harness]
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS


def offers(*owned: int) -> tuple[tuple[str, bytes], ...]:
    """Return the protocol of a classic consumer of the topic "four" that owns the given partitions."""
    owned_partitions = [TopicPartition(topic="four", partitions=list(owned))]
    return (
        (
            "range",
            encode_versioned(ConsumerProtocolSubscription(topics=["four"], owned_partitions=owned_partitions), 1),
        ),
    )


def everything() -> bytes:
    assigned = [TopicPartition(topic="four", partitions=[0, 1, 2, 3])]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def read(response: Any) -> dict[str, list[int]]:
    """Return the assignment in a SyncGroup response."""
    assert response.error_code == 0
    assigned = decode_versioned(ConsumerProtocolAssignment, bytes(response.assignment)).assigned_partitions
    return {topic.topic: list(topic.partitions) for topic in assigned}


class Both:
    """Members of either protocol in the group "g". The classic members subscribe to the topic "four"."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        harness.create("four", 4)
        self.classic = Members(harness)
        self.consumers = Consumers(harness)

    def begin_classic(self) -> str:
        """Make a stable classic group, and return the id of its only member."""
        member = str(self.classic.join("", offers()).member_id)
        self.classic.join(member, offers())
        assert read(self.classic.sync(member, 1, {member: everything()})) == {"four": [0, 1, 2, 3]}
        return member


@pytest.fixture
def both(harness: Harness) -> Both:
    return Both(harness)


def test_a_classic_group_is_upgraded_with_its_assignments(both: Both) -> None:
    member = both.begin_classic()
    assert both.consumers.given(both.consumers.beat("new", topics=["four"])) == {}
    assert both.consumers.assigned()[member] == {"four": [0, 1, 2, 3]}
    assert both.classic.heartbeat(member, 1) == REBALANCE_IN_PROGRESS
    both.classic.join(member, offers(0, 1, 2, 3))
    assert read(both.classic.sync(member, 1)) == {"four": [0, 1]}
    joined = both.classic.join(member, offers(0, 1))
    assert (joined.generation_id, joined.leader, joined.members) == (2, "", [])
    assert both.classic.heartbeat(member, 2) == 0
    assert both.consumers.given(both.consumers.beat("new", 2)) == {"four": [2, 3]}


def test_the_group_is_downgraded_when_the_last_consumer_leaves(both: Both) -> None:
    member = both.begin_classic()
    both.consumers.beat("new", topics=["four"])
    both.classic.join(member, offers(0, 1))
    both.consumers.beat("new", -1)
    assert both.consumers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = both.classic.describe()
    assert (described.group_state, both.classic.ids) == ("PreparingRebalance", {member})
    assert both.classic.heartbeat(member, 2) == REBALANCE_IN_PROGRESS
    joined = both.classic.join(member, offers(0, 1))
    assert (joined.generation_id, joined.leader) == (3, member)


def test_the_group_is_downgraded_when_the_session_of_the_last_consumer_ends(both: Both) -> None:
    member = both.begin_classic()
    both.consumers.beat("new", topics=["four"])
    for _ in range(5):
        both.classic.join(member, offers(0, 1))
        both.classic.sync(member, 2)
        both.harness.clock.advance(10_000)
    assert both.classic.describe().group_state == "PreparingRebalance"


def test_the_group_is_downgraded_when_its_last_consumer_returns_as_a_classic_member(both: Both) -> None:
    both.consumers.beat("new", topics=["four"], instance_id="i")
    other = str(both.classic.join("", offers(), instance="j").member_id)
    both.consumers.beat("new", 2, {"four": [0, 1]})
    back = both.classic.join("", offers(), instance="i")
    assert (back.error_code, back.generation_id, back.leader, back.members) == (0, 3, "", [])
    assert both.consumers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (both.classic.describe().group_state, both.classic.ids) == ("Stable", {other, back.member_id})
    assert read(both.classic.sync(back.member_id, 3, instance="i")) == {"four": [0, 1]}
    assert read(both.classic.sync(other, 3, instance="j")) == {"four": [2, 3]}
    assert both.classic.heartbeat(back.member_id, 3, instance="i") == 0
    assert both.consumers.beat("new", 3, instance_id="i").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_absent_only_consumer_can_return_as_a_classic_member(again: Callable[[Harness], None], both: Both) -> None:
    both.consumers.beat("new", topics=["four"], instance_id="i")
    both.consumers.beat("new", -2, instance_id="i")
    back = both.classic.join("", offers(), instance="i")
    again(both.harness)
    assert (both.classic.describe().group_state, both.classic.ids) == ("Stable", {back.member_id})
    assert read(both.classic.sync(back.member_id, 2, instance="i")) == {"four": [0, 1, 2, 3]}
    both.harness.clock.advance(SESSION_MS + 1)
    assert both.classic.describe().group_state == "Empty"


def test_a_downgraded_group_rebalances_if_the_returning_member_has_other_topics(both: Both) -> None:
    both.harness.create("two", 2)
    both.consumers.beat("new", topics=["two"], instance_id="i")
    other = str(both.classic.join("", offers(), instance="j").member_id)
    back = both.classic.join("", offers(), instance="i")
    assert both.classic.describe().group_state == "PreparingRebalance"
    assert both.classic.heartbeat(other, 3, instance="j") == REBALANCE_IN_PROGRESS
    waiting = both.classic.begin_join(other, offers(), instance="j")
    assert both.classic.join(back.member_id, offers(), instance="i").generation_id == waiting.response.generation_id


def test_the_group_is_not_downgraded_while_other_consumers_are_left(both: Both) -> None:
    both.consumers.beat("new", topics=["four"], instance_id="i")
    both.consumers.beat("other", topics=["four"])
    back = both.classic.join("", offers(), instance="i")
    assert sorted(both.consumers.assigned()) == sorted(["other", back.member_id])


def test_the_policy_can_prevent_the_downgrade_by_a_returning_classic_member(configured: Configured) -> None:
    both = Both(configured({"group.consumer.migration.policy": "upgrade"}))
    both.consumers.beat("new", topics=["four"], instance_id="i")
    back = both.classic.join("", offers(), instance="i")
    assert list(both.consumers.assigned()) == [back.member_id]


def test_a_group_with_both_protocols_survives_a_restart(again: Callable[[Harness], None], both: Both) -> None:
    member = both.begin_classic()
    both.consumers.beat("new", topics=["four"])
    again(both.harness)
    assert both.classic.heartbeat(member, 1) == REBALANCE_IN_PROGRESS
    both.classic.join(member, offers(0, 1))
    assert read(both.classic.sync(member, 2)) == {"four": [0, 1]}
    both.consumers.beat("new", -1)
    again(both.harness)
    assert (both.classic.describe().group_state, both.classic.ids) == ("Stable", {member})


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(both: Both) -> None:
    member = both.begin_classic()
    both.consumers.beat("new", topics=["four"])
    for _ in range(6):
        both.classic.heartbeat(member, 1)
        both.consumers.beat("new", both.consumers.describe().group_epoch)
        both.harness.clock.advance(4_000)
    assert list(both.consumers.assigned()) == ["new"]


def test_a_classic_member_that_does_not_sync_in_time_is_removed(both: Both) -> None:
    both.consumers.beat("new", topics=["four"])
    both.classic.join("member", offers(), session_ms=50_000, rebalance_ms=30_000)
    both.harness.clock.advance(31_000)
    assert list(both.consumers.assigned()) == ["new"]


def test_a_silent_classic_member_is_removed_after_its_own_session_timeout(both: Both) -> None:
    both.consumers.beat("new", topics=["four"])
    both.classic.join("member", offers(), session_ms=8_000)
    assert read(both.classic.sync("member", 3)) == {}
    both.harness.clock.advance(8_100)
    assert list(both.consumers.assigned()) == ["new"]


def test_an_operator_removes_members_of_either_protocol(both: Both) -> None:
    both.consumers.beat("new", topics=["four"], instance_id="i")
    both.classic.join("member", offers())
    both.consumers.beat("other", topics=["four"])
    assert both.classic.leave("member", "nobody") == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert sorted(both.consumers.assigned()) == ["new", "other"]


def test_waiting_members_join_again_when_their_group_is_upgraded(both: Both) -> None:
    member = both.begin_classic()
    waiting = both.classic.begin_join("", offers(), version=3)
    both.consumers.beat("new", topics=["four"])
    both.harness.run_soon()
    assert waiting.response.error_code == REBALANCE_IN_PROGRESS
    assert both.classic.heartbeat(member, 1) == REBALANCE_IN_PROGRESS
    both.harness.clock.advance(REBALANCE_MS + SESSION_MS)
    assert both.consumers.describe().group_state == "Empty"


@pytest.mark.parametrize(
    ("policy", "code"), [("disabled", 69), ("downgrade", 69), ("upgrade", 0), ("BIDIRECTIONAL", 0)]
)
def test_the_policy_controls_upgrades_of_groups_with_members(policy: str, code: int, configured: Configured) -> None:
    both = Both(configured({"group.consumer.migration.policy": policy}))
    both.begin_classic()
    assert both.consumers.beat("new", topics=["four"]).error_code == code


@pytest.mark.parametrize(("policy", "state"), [("upgrade", "Dead"), ("bidirectional", "PreparingRebalance")])
def test_the_policy_controls_downgrades(policy: str, state: str, configured: Configured) -> None:
    both = Both(configured({"group.consumer.migration.policy": policy}))
    both.begin_classic()
    both.consumers.beat("new", topics=["four"])
    both.consumers.beat("new", -1)
    assert both.classic.describe().group_state == state


def test_groups_of_other_protocol_types_are_not_upgraded(both: Both) -> None:
    member = str(both.classic.join("", (("p", b"x"),), protocol_type="connect").member_id)
    both.classic.join(member, (("p", b"x"),), protocol_type="connect")
    assert both.consumers.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_needs_a_valid_subscription(both: Both) -> None:
    both.consumers.beat("new", topics=["four"])
    assert both.classic.join("member", (("range", b"\0"),)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert both.classic.join("member", ()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    joined = both.classic.join("member", offers(), protocol_type="connect")
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(both.consumers.assigned()) == ["new"]
