"""Loading of `__consumer_offsets` partitions in steps, while requests wait for their groups."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Answer, Waiting
from minibroker.coordinators.groups.classic.group import GroupState
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest
from minibroker_protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.coordinators.groups.member_requests import heartbeat_request
from tests.broker.coordinators.groups.offset_requests import (
    MEMBER,
    commit,
    commit_request,
    group_of,
    offsets_of,
    with_members,
)
from tests.broker.harness import Harness, Pending, frame_of
from tests.broker.logs.world import pass_time

GROUPS = 300
T0 = ("t", 0)


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """Return a broker that must reload its only partition with many groups, one step per turn of the event loop."""
    harness = Harness(str(tmp_path / "data"), {"offsets.topic.num.partitions": "1"})
    harness.create()
    for number in range(GROUPS):
        commit(harness, {T0: number}, f"group-{number}")
    harness.services.groups.store.save_group(with_members(harness, "group-1"))
    monkeypatch.setattr("minibroker.coordinators.coordinator_log._REPLAY_STEP_BYTES", 1 << 12)
    monkeypatch.setattr("minibroker.coordinators.partition_loader._MAX_SINGLE_STEP_BYTES", 1 << 12)
    monkeypatch.setattr("minibroker.cluster.logs.chores._SLICE_S", -1.0)
    harness.core.slices.slice_s = 0.0
    harness.services.groups.store.leader_moved(0)
    yield harness
    harness.close()


def begin(harness: Harness, request: Any, version: int) -> Pending:
    """Send a request that must wait, and overwrite the memory in which it arrived."""
    frame = bytearray(frame_of(request, version))
    outcome = accept(memoryview(frame), harness.session())
    frame[:] = bytes(len(frame))
    assert isinstance(outcome, Waiting)
    return Pending(request, version, outcome)


def fetch_request(*groups: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in groups])


def turns(harness: Harness, until: Callable[[], bool]) -> int:
    """Return the number of turns of the event loop until a condition is true."""
    for number in range(100_000):
        if until():
            return number
        harness._soon.pop(0)()
    raise AssertionError("it never is")


def test_only_requests_for_a_loading_partition_wait_for_its_replay(moved: Harness) -> None:
    pending = begin(moved, fetch_request("group-7", "group-299", "nobody"), 8)
    described = begin(moved, DescribeGroupsRequest(groups=["group-1"]), 5)
    lookup = moved.accept(FindCoordinatorRequest(key="group-7"), 3)
    assert isinstance(lookup, Answer)
    assert lookup.response.error_code == 0
    assert turns(moved, lambda: pending.is_answered) > 20
    assert [entry.error_code for entry in pending.response.groups] == [0, 0, 0]
    found_offsets = [
        {entry.partition_index: entry.committed_offset for topic in group.topics for entry in topic.partitions}
        for group in pending.response.groups
    ]
    assert found_offsets == [{0: 7}, {0: 299}, {}]
    turns(moved, lambda: described.is_answered)
    (group,) = described.response.groups
    assert (group.error_code, group.group_state) == (0, "Stable")


def test_a_waiting_request_keeps_its_data(moved: Harness) -> None:
    pending = begin(moved, commit_request({T0: 5000}, "group-1", metadata="brought", **MEMBER), 8)
    moved.run_soon()
    assert pending.response.topics[0].partitions[0].error_code == 0
    moved.core.slices.slice_s = float("inf")
    assert offsets_of(moved, "group-1") == {T0: 5000}


def test_requests_for_a_large_partition_are_rejected_while_it_loads(
    moved: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minibroker.coordinators.partition_loader._MAX_AWAITED_BYTES", 1 << 12)
    refused = moved.accept(fetch_request("group-7"), 8)
    assert isinstance(refused, Answer)
    assert [group.error_code for group in refused.response.groups] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    moved.run_soon()
    moved.core.slices.slice_s = float("inf")
    assert offsets_of(moved, "group-7") == {T0: 7}


def test_a_waiting_request_is_answered_when_the_leader_moves(moved: Harness) -> None:
    pending = begin(moved, fetch_request("group-7"), 8)
    moved.services.groups.store.leader_moved(0)
    moved.run_soon()
    (group,) = pending.response.groups
    assert group.error_code in {0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    moved.core.slices.slice_s = float("inf")
    assert offsets_of(moved, "group-7") == {T0: 7}


def test_members_of_loaded_groups_are_removed_after_their_session(moved: Harness) -> None:
    moved.run_soon()
    group = group_of(moved, "group-1")
    assert group.is_in(GroupState.STABLE)
    pass_time(moved, 10_000)
    assert not group.members


def test_a_heartbeat_counts_while_groups_are_being_resumed(moved: Harness) -> None:
    turns(moved, lambda: not moved.services.groups.store.is_loading)
    moved.clock.advance(9_000)
    answer = moved.accept(heartbeat_request("group-1", "m", 3), 4)
    assert isinstance(answer, Answer)
    assert answer.response.error_code == 0
    moved.run_soon()
    moved.clock.advance(9_000)
    assert list(group_of(moved, "group-1").members) == ["m"]
