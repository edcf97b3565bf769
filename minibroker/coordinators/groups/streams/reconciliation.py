"""Reconciliation of a member's current with its target tasks (Kafka's `CurrentAssignmentBuilder` of streams groups).

It gives up first what it has to, and says so by no longer naming it; then it comes to the epoch of the assignment and
has what is free of it. The rest it gets when the members that had it have given it up.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minibroker.coordinators.groups.streams.member import StreamsMember, TaskState
from minibroker.coordinators.groups.streams.tasks import HeldTasks, Tasks, TaskSets, have_common


class UnknownTaskStateError(Exception):
    """The member is in a state of a later Kafka, and still has tasks: it has to join again."""


class Owners(NamedTuple):
    """The processes that have each task now; a task is its subtopology and its partition.

    Attributes:
        active: the process that runs it.
        standby, warmup: the processes that hold a copy of its state.
    """

    active: dict[tuple[str, int], str]
    standby: dict[tuple[str, int], set[str]]
    warmup: dict[tuple[str, int], set[str]]

    def has_copy(self, task: tuple[str, int], process_id: str) -> bool:
        """Does this process hold a copy of it?"""
        return process_id in self.standby.get(task, ()) or process_id in self.warmup.get(task, ())


class _Difference(NamedTuple):
    kept: TaskSets
    revoked: TaskSets
    free: TaskSets
    is_incomplete: bool


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners
) -> StreamsMember:
    """The member one step further; the same one when there is none to take.

    Args:
        member: as it stands.
        target_epoch: the epoch of the assignment.
        target: what it is to run in `target_epoch`.
        owned: what it says that it runs; None when it says nothing.
        owners: who has what now.
    """
    epoch = member.epoch
    if member.state is TaskState.STABLE:
        if epoch == target_epoch:
            return member
    elif member.state is TaskState.UNREVOKED_TASKS:
        if owned is None or have_common(owned, member.revoking.without_epochs()):
            return member
        epoch += 1
    elif member.state is TaskState.UNKNOWN:
        if owned is None or not owned.is_empty:
            raise UnknownTaskStateError
        epoch = target_epoch
    return _next(member, epoch, target_epoch, target, owned, owners)


def _next(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners
) -> StreamsMember:
    process_id, has = member.process_id, member.assigned.without_epochs()

    def is_active_free(task: tuple[str, int]) -> bool:
        return owners.active.get(task) is None and not owners.has_copy(task, process_id)

    def is_copy_free(task: tuple[str, int]) -> bool:
        return owners.active.get(task) != process_id and not owners.has_copy(task, process_id)

    active = _difference(has.active, target.active, is_active_free)
    standby = _difference(has.standby, target.standby, is_copy_free)
    warmup = _difference(has.warmup, target.warmup, is_copy_free)
    held = member.assigned.active
    kept = HeldTasks(_of(held, active.kept), standby.kept, warmup.kept)
    revoked = HeldTasks(_of(held, active.revoked), standby.revoked, warmup.revoked)
    if not revoked.is_empty and (owned is None or have_common(owned, revoked.without_epochs())):
        return member.at(epoch, TaskState.UNREVOKED_TASKS, kept, revoked)
    given = {each: dict.fromkeys(tasks, target_epoch) for each, tasks in active.free.items()}
    waits = active.is_incomplete or standby.is_incomplete or warmup.is_incomplete
    state = TaskState.UNRELEASED_TASKS if waits else TaskState.STABLE
    return member.at(target_epoch, state, kept.merged(HeldTasks(given, standby.free, warmup.free)))


def _difference(has: TaskSets, target: TaskSets, is_free: Callable[[tuple[str, int]], bool]) -> _Difference:
    kept = {each: tasks & target.get(each, frozenset()) for each, tasks in has.items()}
    revoked = {each: tasks - target.get(each, frozenset()) for each, tasks in has.items()}
    missing = {each: tasks - kept.get(each, frozenset()) for each, tasks in target.items()}
    free = {each: frozenset(index for index in tasks if is_free((each, index))) for each, tasks in missing.items()}
    return _Difference(_filled(kept), _filled(revoked), _filled(free), is_incomplete=free != missing)


def _filled(tasks: TaskSets) -> TaskSets:
    return {each: indexes for each, indexes in tasks.items() if indexes}


def _of(held: Mapping[str, Mapping[int, int]], tasks: TaskSets) -> dict[str, dict[int, int]]:
    return {each: {index: held[each][index] for index in indexes} for each, indexes in tasks.items()}
