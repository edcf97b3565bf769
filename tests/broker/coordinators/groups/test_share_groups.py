"""Share groups: epochs, assignment, sessions, states of their partitions, and restarts."""

from collections.abc import Callable
from unittest.mock import patch

import pytest

from minibroker.cluster.routing.slices import drain
from minibroker.coordinators.groups.modern.group import GroupRefusedError, ModernGroupState
from minibroker.coordinators.share_state.coordinator import Outcome, ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.coordinators.groups.member_requests import join_request
from tests.broker.coordinators.groups.offset_requests import commit, delete, delete_topics
from tests.broker.coordinators.groups.share_members import ASSIGNMENT_MS, SESSION_MS, ShareMembers
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of

Make = Callable[[dict[str, str]], Harness]


@pytest.fixture
def members(harness: Harness) -> ShareMembers:
    harness.create("four", 4)
    return ShareMembers(harness)


def test_a_partition_is_assigned_once_it_has_a_state(members: ShareMembers) -> None:
    assert members.beat("a", topics=["four"]) == ("a", 2, {})
    assert members.initialized() == {"four": [0, 1, 2, 3]}
    states = members.harness.services.share_states
    topic = topic_of(members.harness, "four")
    summary = states.summary(SharePartitionKey("g", topic.id, 3))
    assert (summary.code, summary.state_epoch, summary.start_offset) == (0, 2, UNKNOWN)
    members.pass_time(ASSIGNMENT_MS)
    assert members.beat("a", 2) == ("a", 3, {topic.id: frozenset(range(4))})
    assert members.beat("a", 3).assignment is None
    assert members.group.state is ModernGroupState.STABLE


def test_a_leaving_member_raises_the_epoch_and_its_partitions_are_reassigned(members: ShareMembers) -> None:
    members.settle("a", "b", topics=["four"])
    epoch = members.group.epoch
    assert members.groups.leave("g", "b", None, -1).epoch == -1
    assert members.group.epoch == epoch + 1
    assert members.settle("a") == {"a": {"four": [0, 1, 2, 3]}}
    with pytest.raises(GroupRefusedError) as refusal:
        members.groups.leave("g", "b", None, -1)
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    members.groups.leave("g", "a", None, -1)
    assert members.group.state is ModernGroupState.EMPTY


def test_a_silent_member_is_removed(members: ShareMembers) -> None:
    members.settle("a", "b", topics=["four"])
    members.pass_time(SESSION_MS - 1)
    members.beat("a", members.group.members["a"].epoch)
    members.pass_time(1)
    assert set(members.group.members) == {"a"}
    assert members.refused("b", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_subscription_too_large_for_a_record_is_rejected(configured: Make) -> None:
    harness = configured({"message.max.bytes": "2000"})
    members = ShareMembers(harness)
    assert members.refused("a", topics=["t", *(f"unknown-{number}" for number in range(200))]) == -1
    assert members.groups.find("g") is None
    assert members.settle("a") == {"a": {"t": [0]}}


def test_a_full_group_rejects_new_members(configured: Make) -> None:
    harness = configured({"group.share.max.size": "10"})
    members = ShareMembers(harness)
    for number in range(10):
        members.beat(str(number))
    assert members.refused("one more") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert members.beat("3", 0).epoch > 0


def test_a_changed_subscription_changes_the_assignment(members: ShareMembers) -> None:
    members.harness.create("other", 1)
    members.settle("a", "b", topics=["four"])
    members.beat("b", members.group.members["b"].epoch, ["other"])
    assert members.assigned()["b"] == {}  # The member has unsubscribed.
    assert members.settle("a", "b") == {"a": {"four": [0, 1, 2, 3]}, "b": {"other": [0]}}


def test_new_topics_and_partitions_are_assigned(members: ShareMembers) -> None:
    assert members.settle("a", topics=["four", "later"]) == {"a": {"four": [0, 1, 2, 3]}}
    members.harness.create("later", 1)
    members.harness.core.topics.grow([(topic_of(members.harness, "four"), 6, None)])
    assert members.settle("a") == {"a": {"four": [0, 1, 2, 3, 4, 5], "later": [0]}}


def test_a_deleted_topic_is_forgotten(members: ShareMembers) -> None:
    members.harness.create("other", 1)
    members.settle("a", topics=["four", "other"])
    delete_topics(members.harness, "other")
    members.harness.run_soon()
    assert members.initialized() == {"four": [0, 1, 2, 3]}
    assert members.settle("a") == {"a": {"four": [0, 1, 2, 3]}}


def test_a_failed_state_initialization_is_retried(members: ShareMembers) -> None:
    refusal = Outcome(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with patch.object(ShareCoordinator, "initialize", return_value=refusal):
        members.beat("a", topics=["four"])
        assert not members.group.partitions.initialized
        assert not members.group.partitions.initializing
    members.beat("a", 2)
    assert members.initialized() == {"four": [0, 1, 2, 3]}


def test_each_state_is_initialized_once_for_many_heartbeats(members: ShareMembers) -> None:
    states = members.groups.states()
    members.harness.core.slices.slice_s = 0.0  # Each state is initialized in its own turn.
    with patch.object(states, "initialize", wraps=states.initialize) as initialize:
        for member in "abc":
            members.send(member, topics=["four"])
        members.harness.run_soon()
    initialized = [call.args[0] for call in initialize.call_args_list]
    assert len(initialized) == len(set(initialized)) == 4
    assert members.initialized() == {"four": [0, 1, 2, 3]}


def test_a_crash_during_initialization_loses_no_state(members: ShareMembers) -> None:
    members.status()
    members.harness.core.slices.slice_s = 0.0
    members.send("a", topics=["four"])
    assert members.group.partitions.initializing
    members.harness.crash()
    members.status()
    members.pass_time(members.groups.core.config.integer("group.share.initialize.retry.interval.ms"))
    assert members.settle("a") == {"a": {"four": [0, 1, 2, 3]}}


def test_a_topic_deleted_during_initialization_is_not_assigned(members: ShareMembers) -> None:
    members.harness.create("other", 2)
    members.status()
    members.harness.core.slices.slice_s = 0.0
    members.send("a", topics=["four", "other"])
    delete_topics(members.harness, "other")
    members.harness.run_soon()
    assert members.settle("a") == {"a": {"four": [0, 1, 2, 3]}}
    assert members.initialized() == {"four": [0, 1, 2, 3]}


def test_a_group_survives(members: ShareMembers, again: Callable[[Harness], None]) -> None:
    before = members.settle("a", "b", topics=["four"])
    group = members.group
    known = group.epoch, group.assignment_epoch, group.metadata_hash, group.target, group.partitions.to_value()
    again(members.harness)
    members.status()
    group = members.group
    assert members.assigned() == before
    assert known == (
        group.epoch, group.assignment_epoch, group.metadata_hash, group.target, group.partitions.to_value()
    )  # fmt: skip
    assert members.beat("a", group.members["a"].epoch) == ("a", group.epoch, None)
    members.pass_time(SESSION_MS)
    assert not members.group.members
    again(members.harness)
    members.status()
    assert members.group.is_empty
    assert members.initialized() == {"four": [0, 1, 2, 3]}


def test_an_empty_group_never_expires_and_its_tombstones_count(configured: Make) -> None:
    harness = configured({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"})
    members = ShareMembers(harness)
    members.settle("a")
    members.groups.leave("g", "a", None, -1)
    members.pass_time(3_600_000)
    store = harness.services.groups.store
    assert store.find("g") is members.group
    assert not drain(store.forget(members.group, list, removes_group=True))
    harness.restart()
    members.status()
    assert harness.services.groups.store.find("g") is None


def test_share_groups_and_other_groups_do_not_mix(members: ShareMembers) -> None:
    harness = members.harness
    assert not Consumers(harness, "c").beat("a", topics=["four"]).error_code
    assert ShareMembers(harness, "c").refused("a", 0, ["four"]) is ErrorCode.GROUP_ID_NOT_FOUND
    members.settle("a", topics=["four"])
    assert Consumers(harness).beat("b", topics=["four"]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.ask(join_request("g"), 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert commit(harness, {("four", 0): 1}, version=8) == {("four", 0): ErrorCode.GROUP_ID_NOT_FOUND}
    assert delete(harness)[0] == ErrorCode.GROUP_ID_NOT_FOUND
    assert Consumers(harness).beat("b", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
