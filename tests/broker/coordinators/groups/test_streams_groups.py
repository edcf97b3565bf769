"""Streams groups: commits in earlier epochs, and standby tasks that become active in Kafka 4.4 and before."""

from typing import Final

import pytest

from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.streams.group import RECORDS, StreamsGroup, StreamsMember, TaskState
from minibroker.coordinators.groups.streams.internal_topics import to_record
from minibroker.coordinators.groups.streams.tasks import HeldTasks, Owners, Tasks
from minibroker.coordinators.groups.streams.update import reconcile
from minibroker_protocol.coordinator_records.streams_groups import StreamsGroupTopologyKey
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.handlers.streams_group_requests import topology


@pytest.fixture
def group() -> StreamsGroup:
    """Return a group whose member is in epoch 5, with task 0 since epoch 3 and task 1 since epoch 5."""
    group = StreamsGroup("g")
    member = StreamsMember("m", epoch=5, assigned=HeldTasks({"0": {0: 3, 1: 5}}))
    for change in (
        Change(StreamsGroupTopologyKey(group_id="g"), to_record(topology())),
        RECORDS.member_metadata("g", member),
        RECORDS.current_assignment("g", member),
    ):
        group.apply(*change)
    return group


def test_the_epochs_stored_by_a_kafka_plugin_are_kept(group: StreamsGroup) -> None:
    key, value = group.next_epoch()
    assert value is not None
    value.stored_description_topology_epoch, value.failed_description_topology_epoch = 3, 4
    group.apply(key, value)
    after = group.next_epoch().value
    assert after is not None
    assert (after.stored_description_topology_epoch, after.failed_description_topology_epoch) == (3, 4)


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("m", 5, ErrorCode.NONE),
        ("m", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 5, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_commit_in_their_epochs(group: StreamsGroup, member_id: str, epoch: int, code: ErrorCode) -> None:
    assert group.validate_commit(member_id, None, epoch, is_transactional=False, version=9) == code
    in_transaction = group.validate_commit(member_id, None, epoch, is_transactional=True, version=5)
    if not member_id:
        assert in_transaction == ErrorCode.NONE
    else:
        assert in_transaction == (ErrorCode.ILLEGAL_GENERATION if code == ErrorCode.STALE_MEMBER_EPOCH else code)
        assert group.validate_commit(member_id, None, epoch, is_transactional=True, version=6) == code


def test_an_old_version_of_offset_commit_is_unsupported(group: StreamsGroup) -> None:
    code = group.validate_commit("m", None, 5, is_transactional=False, version=8)
    assert code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("epoch", "place", "may"),
    [(3, ("t", 0), True), (4, ("t", 0), True), (2, ("t", 0), False), (4, ("t", 1), False), (4, ("u", 0), False)],
)
def test_late_commits_are_accepted_for_tasks_that_the_member_had(
    group: StreamsGroup, epoch: int, place: tuple[str, int], *, may: bool
) -> None:
    assert group.may_commit_late("m", epoch, [place]) is may


_TASK: Final = {"0": frozenset({1})}


_MEMBER: Final = StreamsMember("m", process_id="p", epoch=1, assigned=HeldTasks(standby=_TASK))


_TARGET: Final = Tasks(active=_TASK)


_OWNED: Final = Tasks(standby=_TASK)


_OWNERS: Final = Owners({}, {("0", 1): {"p"}}, {})


_FREE: Final = Owners({}, {}, {})


def test_a_standby_task_becomes_active_immediately_since_kafka_4_4() -> None:
    moved = reconcile(_MEMBER, 2, _TARGET, _OWNED, _OWNERS)
    assert (moved.epoch, moved.state, moved.assigned) == (2, TaskState.STABLE, HeldTasks(active={"0": {1: 2}}))


def test_a_standby_task_is_revoked_before_it_becomes_active_in_kafka_4_3() -> None:
    moved = reconcile(_MEMBER, 2, _TARGET, _OWNED, _OWNERS, may_switch=False)
    assert (moved.epoch, moved.state) == (1, TaskState.UNREVOKED_TASKS)
    assert (moved.assigned, moved.revoking) == (HeldTasks(), HeldTasks(standby=_TASK))
    assert reconcile(moved, 2, _TARGET, _OWNED, _OWNERS, may_switch=False) is moved
    given_up = reconcile(moved, 2, _TARGET, Tasks(), _FREE, may_switch=False)
    assert (given_up.epoch, given_up.assigned) == (2, HeldTasks(active={"0": {1: 2}}))


def test_a_task_waits_for_a_standby_of_its_process_in_kafka_4_3() -> None:
    other = StreamsMember("other", process_id="p", epoch=1)
    moved = reconcile(other, 2, _TARGET, Tasks(), _OWNERS, may_switch=False)
    assert (moved.state, moved.assigned) == (TaskState.UNRELEASED_TASKS, HeldTasks())
