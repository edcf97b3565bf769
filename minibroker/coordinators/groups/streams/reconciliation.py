"""Reconciliation of a member's current tasks with its target (Kafka's `CurrentAssignmentBuilder` for streams groups).

The member first revokes tasks, and confirms the revocation by no longer reporting them. Then it moves to the epoch of
the assignment and gets the free tasks of its target. It gets the other tasks after their owners have revoked them.
Since Kafka 4.4, a standby or warm-up task can change its kind, or become active, without being revoked first.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.streams.group import StreamsMember, TaskState
from minibroker.coordinators.groups.streams.tasks import HeldTasks, Owners, Task, Tasks, each_task, overlap, sets_of
from minibroker_protocol.error_codes import ErrorCode


class _Holdings(NamedTuple):
    active: frozenset[Task]
    standby: frozenset[Task]
    warmup: frozenset[Task]


class _Difference:
    """The difference between current and target tasks of one kind: tasks that the member keeps, revokes and gets."""

    def __init__(self, has: frozenset[Task], target: frozenset[Task], is_free: Callable[[Task], bool]) -> None:
        missing = target - has
        self.kept = set(has & target)
        self.revoked = set(has - target)
        self.free = {task for task in missing if is_free(task)}
        self.is_incomplete = len(self.free) < len(missing)

    def keep(self, tasks: set[Task]) -> None:
        """Keep tasks that the member already has as another kind of task, so that it need not wait for them."""
        self.free -= tasks
        self.kept |= tasks


def reconcile(
    member: StreamsMember,
    target_epoch: int,
    target: Tasks,
    owned: Tasks | None,
    owners: Owners,
    *,
    may_switch: bool = True,
) -> StreamsMember:
    """Return the member after its next transition, or the same member if there is none.

    Args:
        member: The member's current state.
        target_epoch: The epoch of the assignment.
        target: The member's tasks in `target_epoch`.
        owned: The tasks that the member reports, or None if it reports nothing.
        owners: The current owners of each task.
        may_switch: Whether tasks can change their kind without being revoked, as since Kafka 4.4.

    Raises:
        GroupRefusedError: FENCED_MEMBER_EPOCH, because the member is in a state of a later Kafka release and still has
            tasks.
    """
    epoch = member.epoch
    if member.state is TaskState.STABLE:
        if epoch == target_epoch:
            return member
    elif member.state is TaskState.UNREVOKED_TASKS:
        if owned is None or overlap(owned, member.revoking.without_epochs()):
            return member
        epoch += 1
    elif member.state is TaskState.UNKNOWN:
        if owned is None or any(owned):
            message = "The member is in an unknown state: it must join again."
            raise GroupRefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        epoch = target_epoch
    return _advance(member, epoch, target_epoch, target, owned, owners, may_switch=may_switch)


def _advance(
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: Tasks,
    owned: Tasks | None,
    owners: Owners,
    *,
    may_switch: bool,
) -> StreamsMember:
    current, wanted_tasks = _to_holdings(member.assigned.without_epochs()), _to_holdings(target)
    switching = current if may_switch else _Holdings(*[frozenset[Task]()] * 3)
    active, standby, warmup = _find_differences(current, wanted_tasks, switching, member.process_id, owners)
    standby.keep(standby.free & switching.active)
    for replica, other, held in ((warmup, standby, switching.standby), (standby, warmup, switching.warmup)):
        changed = replica.free & held
        replica.keep(changed)
        other.revoked -= changed
    for replica, held in ((standby, switching.standby), (warmup, switching.warmup)):
        replica.revoked -= held & wanted_tasks.active
    held_epochs = member.assigned.active
    revoked = HeldTasks(_keep_epochs(held_epochs, active.revoked), sets_of(standby.revoked), sets_of(warmup.revoked))
    must_revoke = any(revoked) and (owned is None or overlap(owned, revoked.without_epochs()))
    promoted: set[Task] = set() if must_revoke else active.free
    for replica, held in ((standby, switching.standby), (warmup, switching.warmup)):
        replica.kept |= (held & wanted_tasks.active) - promoted
    kept = HeldTasks(_keep_epochs(held_epochs, active.kept), sets_of(standby.kept), sets_of(warmup.kept))
    if must_revoke:
        return member.at(epoch, TaskState.UNREVOKED_TASKS, kept, revoked)
    new_active = {
        subtopology: dict.fromkeys(tasks, target_epoch) for subtopology, tasks in sets_of(active.free).items()
    }
    waits = active.is_incomplete or standby.is_incomplete or warmup.is_incomplete
    state = TaskState.UNRELEASED_TASKS if waits else TaskState.STABLE
    return member.at(
        target_epoch, state, kept.merged(HeldTasks(new_active, sets_of(standby.free), sets_of(warmup.free)))
    )


def _find_differences(
    has: _Holdings, target: _Holdings, switching: _Holdings, process_id: str, owners: Owners
) -> tuple[_Difference, _Difference, _Difference]:
    def runs_here(task: Task) -> bool:
        return owners.active.get(task) == process_id

    def is_standby_here(task: Task) -> bool:
        return process_id in owners.standby.get(task, ())

    def is_warmup_here(task: Task) -> bool:
        return process_id in owners.warmup.get(task, ())

    def is_standby_beside(task: Task) -> bool:
        return is_standby_here(task) and task not in switching.standby

    def is_warmup_beside(task: Task) -> bool:
        return is_warmup_here(task) and task not in switching.warmup

    def is_active_free(task: Task) -> bool:
        return owners.active.get(task) is None and not is_standby_beside(task) and not is_warmup_beside(task)

    def is_standby_free(task: Task) -> bool:
        runs_beside = runs_here(task) and task not in switching.active
        return not runs_beside and not is_standby_here(task) and not is_warmup_beside(task)

    def can_start_warmup(task: Task) -> bool:
        return not runs_here(task) and not is_standby_beside(task) and not is_warmup_here(task)

    return (
        _Difference(has.active, target.active, is_active_free),
        _Difference(has.standby, target.standby, is_standby_free),
        _Difference(has.warmup, target.warmup, can_start_warmup),
    )


def _to_holdings(tasks: Tasks) -> _Holdings:
    return _Holdings(*(frozenset(each_task(kind)) for kind in tasks))


def _keep_epochs(held: Mapping[str, Mapping[int, int]], tasks: Iterable[Task]) -> dict[str, dict[int, int]]:
    return {name: {index: held[name][index] for index in indexes} for name, indexes in sets_of(tasks).items()}
