"""A standby task that becomes active, in Kafka 4.4 and before (`CurrentAssignmentBuilder`)."""

from typing import Final

from minibroker.coordinators.groups.streams.group import StreamsMember, TaskState
from minibroker.coordinators.groups.streams.reconciliation import reconcile
from minibroker.coordinators.groups.streams.tasks import HeldTasks, Owners, Tasks

_TASK: Final = {"0": frozenset({1})}
_MEMBER: Final = StreamsMember("m", process_id="p", epoch=1, assigned=HeldTasks(standby=_TASK))
_TARGET: Final = Tasks(active=_TASK)
_OWNED: Final = Tasks(standby=_TASK)
_OWNERS: Final = Owners({}, {("0", 1): {"p"}}, {})
_FREE: Final = Owners({}, {}, {})


def test_a_standby_task_becomes_active_at_once_since_kafka_4_4() -> None:
    moved = reconcile(_MEMBER, 2, _TARGET, _OWNED, _OWNERS)
    assert (moved.epoch, moved.state, moved.assigned) == (2, TaskState.STABLE, HeldTasks(active={"0": {1: 2}}))


def test_a_standby_task_is_given_up_before_it_becomes_active_in_kafka_4_3() -> None:
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
