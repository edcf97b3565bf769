"""The tasks of a streams group: partitions of subtopologies (Kafka's `TasksTuple` and `TasksTupleWithEpochs`).

A task is active, a standby, or a warm-up. A warm-up becomes active soon.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker_protocol.error_codes import ErrorCode

# Imported for type checking only, so that brokers without streams groups do not load these messages.
if TYPE_CHECKING:
    from minibroker_protocol.messages.streams_group import TaskOffset

Task = tuple[str, int]
"""A subtopology id and a partition."""
TaskSets = Mapping[str, frozenset[int]]
"""The partitions of tasks by subtopology, without empty sets."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""The assignment epochs of tasks by subtopology and partition."""
TaskOffsets = Mapping[str, Mapping[int, int]]
"""The sums of changelog offsets of tasks, by subtopology and partition."""


_NO_TASKS: Final[Mapping[str, Any]] = MappingProxyType({})


class Tasks(NamedTuple):
    """Tasks that a member reports, or that its target assignment contains."""

    active: TaskSets = _NO_TASKS
    standby: TaskSets = _NO_TASKS
    warmup: TaskSets = _NO_TASKS


class HeldTasks(NamedTuple):
    """The tasks that a member has. Late commits are fenced by the assignment epochs of active tasks."""

    active: TaskEpochs = _NO_TASKS
    standby: TaskSets = _NO_TASKS
    warmup: TaskSets = _NO_TASKS

    def without_epochs(self) -> Tasks:
        """Return the tasks without epochs."""
        return Tasks({sub: frozenset(tasks) for sub, tasks in self.active.items()}, self.standby, self.warmup)

    @property
    def copies(self) -> TaskSets:
        """The standby and warm-up tasks, that is, the copies of active tasks' states."""
        return _unite(self.standby, self.warmup)

    def merged(self, other: "HeldTasks") -> "HeldTasks":
        """Return the union of these tasks and `other`. The epochs of active tasks in `other` take precedence."""
        active = {subtopology: dict(tasks) for subtopology, tasks in self.active.items()}
        for subtopology, tasks in other.active.items():
            active.setdefault(subtopology, {}).update(tasks)
        return HeldTasks(active, _unite(self.standby, other.standby), _unite(self.warmup, other.warmup))


class Owners(NamedTuple):
    """The processes that own each task.

    Attributes:
        active: The process that runs each task.
        standby, warmup: The processes that have a copy of each task's state.
    """

    active: dict[Task, str]
    standby: dict[Task, set[str]]
    warmup: dict[Task, set[str]]


class ReportedOffsets(NamedTuple):
    """The changelog offsets that a member reports for its local task state.

    State left by earlier assignments is included.

    Attributes:
        reached: The offset reached in the changelogs of each task, summed over its changelog partitions.
        ends: The end offset of the changelogs of each task, summed in the same way.
    """

    reached: TaskOffsets = _NO_TASKS
    ends: TaskOffsets = _NO_TASKS

    def updated(self, reached: "Iterable[TaskOffset] | None", ends: "Iterable[TaskOffset] | None") -> "ReportedOffsets":
        """Return the offsets after a heartbeat. None means no change.

        Raises:
            GroupRefusedError: INVALID_REQUEST, because a task has two offsets.
        """
        if reached is None and ends is None:
            return self
        return ReportedOffsets(
            self.reached if reached is None else _map_offsets_by_task(reached),
            self.ends if ends is None else _map_offsets_by_task(ends),
        )


NO_TASKS: Final = Tasks()
NO_HELD_TASKS: Final = HeldTasks()
NO_OFFSETS: Final[TaskOffsets] = _NO_TASKS
NOTHING_REPORTED: Final = ReportedOffsets()


def task_sets(elements: Iterable[Any]) -> TaskSets:
    """Return the tasks listed in a message or record whose elements have a `subtopology_id` and `partitions`."""
    return {task_ids.subtopology_id: frozenset(task_ids.partitions) for task_ids in elements if task_ids.partitions}


def sets_of(tasks: Iterable[Task]) -> TaskSets:
    """Return the partitions of tasks by subtopology."""
    indexes_by_subtopology: dict[str, set[int]] = {}
    for subtopology, index in tasks:
        indexes_by_subtopology.setdefault(subtopology, set()).add(index)
    return {subtopology: frozenset(indexes) for subtopology, indexes in indexes_by_subtopology.items()}


def each_task(tasks: Mapping[str, Iterable[int]]) -> list[Task]:
    """Return the tasks in a mapping of partitions by subtopology."""
    return [(subtopology, index) for subtopology, indexes in tasks.items() for index in indexes]


def _map_offsets_by_task(reported: "Iterable[TaskOffset]") -> TaskOffsets:
    offsets_by_subtopology: dict[str, dict[int, int]] = {}
    for task_offset in reported:
        offsets = offsets_by_subtopology.setdefault(task_offset.subtopology_id, {})
        if task_offset.partition in offsets:
            raise GroupRefusedError(
                ErrorCode.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {task_offset.subtopology_id} and partition "
                f"{task_offset.partition}.",
            )
        offsets[task_offset.partition] = task_offset.offset
    return offsets_by_subtopology


def overlap(some: Tasks, others: Tasks) -> bool:
    """Return whether both contain the same task of the same kind."""
    return any(
        tasks & other_kind.get(subtopology, frozenset())
        for kind, other_kind in zip(some, others, strict=True)
        for subtopology, tasks in kind.items()
    )


def are_subset(some: Tasks, others: Tasks) -> bool:
    """Return whether `others` contains all tasks in `some`."""
    return all(
        tasks <= other_kind.get(subtopology, frozenset())
        for kind, other_kind in zip(some, others, strict=True)
        for subtopology, tasks in kind.items()
    )


def _unite(some: TaskSets, others: TaskSets) -> TaskSets:
    return {sub: some.get(sub, frozenset()) | others.get(sub, frozenset()) for sub in (*some, *(others.keys() - some))}
