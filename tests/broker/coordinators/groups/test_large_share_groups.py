"""Share groups of many topics: heartbeats take steps, between which others change the group and the topics."""

from collections.abc import Sequence

import pytest

from minibroker.coordinators.groups.modern.topics import finding_topics, known_topics
from minibroker.coordinators.groups.share.preparation import MANY_TOPICS
from minibroker.coordinators.share_state.coordinator import Outcome
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.routing.outcomes import Answer
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.coordinators.groups.share_members import ASSIGNMENT_MS, ShareMembers
from tests.broker.harness import Harness, Pending

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def members(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> ShareMembers:
    """Return a group of which each heartbeat yields at each step; it is a large one as soon as it has a topic."""
    monkeypatch.setattr("minibroker.coordinators.groups.share.coordinator.MANY_TOPICS", 0)
    monkeypatch.setattr("minibroker.coordinators.groups.modern.topics._OF_A_STEP", 1)
    monkeypatch.setattr("minibroker.coordinators.groups.share.preparation._OF_A_STEP", 1)
    for name in NAMES:
        harness.create(name, 2)
    members = ShareMembers(harness)
    members.status()
    harness.core.slices.slice_s = 0.0
    return members


def begun(members: ShareMembers, member: str, epoch: int = 0, topics: Sequence[str] | None = None) -> Pending:
    """Send a heartbeat that waits for its turns."""
    named = None if topics is None else list(topics)
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=named
    )
    waiting = members.harness.accept(request, 1)
    assert waiting is not None
    assert not isinstance(waiting, Answer)
    return Pending(request, 1, waiting)


def ended(members: ShareMembers, *pending: Pending) -> list[int]:
    """Let the steps of heartbeats follow each other; the epochs in their answers."""
    members.harness.run_soon()
    assert all(each.response.error_code == 0 for each in pending)
    return [each.response.member_epoch for each in pending]


def settled(members: ShareMembers, *names: str) -> dict[str, dict[str, list[int]]]:
    """The partitions of each member, after as many heartbeats as that takes."""
    for _ in range(3):
        members.pass_time(ASSIGNMENT_MS)
        ended(members, *(begun(members, name, members.group.members[name].epoch) for name in names))
    return members.assigned()


def test_a_topic_is_looked_for_in_a_step_of_its_own(members: ShareMembers) -> None:
    topics = members.harness.core.topics
    steps = finding_topics(topics, {*NAMES, "none"}, {})
    assert len(list(steps)) == len(NAMES) + 1
    assert MANY_TOPICS == 1000


def test_what_is_found_in_steps_is_what_is_known(members: ShareMembers) -> None:
    topics = members.harness.core.topics
    ended(members, begun(members, "a", topics=NAMES))
    group = members.group
    assert group.topics == known_topics(topics, frozenset(NAMES), {})
    topics_before = group.topics
    ended(members, begun(members, "a", group.members["a"].epoch))
    assert group.topics is topics_before
    assert group.complete == (topics_before, group.partitions)


def test_members_that_join_at_the_same_time_are_all_there(members: ShareMembers) -> None:
    joins = [begun(members, name, topics=[name, "d"]) for name in "abc"]
    ended(members, *joins)
    assert members.group.subscribed_topics() == {"a", "b", "c", "d"}
    assert set(members.group.topics) == {"a", "b", "c", "d"}
    ended(members, *(begun(members, name, members.group.members[name].epoch) for name in "abc"))
    assert members.initialized() == {name: [0, 1] for name in NAMES}
    assigned = settled(members, *"abc")
    assert {name: assigned[name][name] for name in "abc"} == {name: [0, 1] for name in "abc"}
    assert {index for each in assigned.values() for index in each.get("d", ())} == {0, 1}


def test_a_state_is_begun_once_however_many_heartbeats_miss_it(
    members: ShareMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = members.groups.states()
    initialize = states.initialize
    begun_states: list[SharePartitionKey] = []

    def noting(key: SharePartitionKey, epoch: int, offset: int) -> Outcome:
        begun_states.append(key)
        return initialize(key, epoch, offset)

    monkeypatch.setattr(states, "initialize", noting)
    ended(members, *(begun(members, name, topics=NAMES) for name in "abcd"))
    ended(members, *(begun(members, name, topics=NAMES) for name in "abcd"))
    assert len(begun_states) == len(set(begun_states)) == 2 * len(NAMES)


def test_a_topic_that_goes_meanwhile_is_nobodys(members: ShareMembers) -> None:
    joining = begun(members, "a", topics=NAMES)
    topic = DeleteTopicState(name="b")
    deleting = DeleteTopicsRequest(topics=[topic], timeout_ms=1000)
    waiting = members.harness.accept(deleting, 6)
    ended(members, joining)
    assert waiting is not None
    assert members.harness.core.topics.get("b") is None
    assert settled(members, "a") == {"a": {name: [0, 1] for name in "acd"}}
    assert members.initialized() == {name: [0, 1] for name in "acd"}


def test_who_leaves_while_another_one_joins_is_gone(members: ShareMembers) -> None:
    ended(members, begun(members, "a", topics=["a", "b"]))
    joining = begun(members, "b", topics=["c"])
    members.groups.leave("g", "a")
    ended(members, joining)
    assert set(members.group.members) == {"b"}
    assert settled(members, "b") == {"b": {"c": [0, 1]}}
    assert set(members.group.topics) == {"c"}


def test_a_crash_while_states_are_begun_loses_none(members: ShareMembers) -> None:
    ended(members, begun(members, "a", topics=NAMES))
    members.harness.crash()
    members.harness.core.slices.slice_s = 0.0
    members.status()
    assert settled(members, "a") == {"a": {name: [0, 1] for name in NAMES}}
