"""Tasks of a streams group: partitions of subtopologies (Kafka's `TasksTuple` and `TasksTupleWithEpochs`).

A task is active, a standby, or a warm-up, which is about to become active.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:  # Brokers without streams groups load no message of theirs.
    from minibroker_protocol.messages.streams_group import TaskOffset

Task = tuple[str, int]
"""A subtopology and a partition."""
TaskSets = Mapping[str, frozenset[int]]
"""By subtopology; none has an empty set."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""By subtopology, its tasks with the epoch in which each was assigned."""
TaskOffsets = Mapping[str, Mapping[int, int]]
"""By subtopology, the sum of the offsets of a task's changelogs."""


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Tasks(NamedTuple):
    """Tasks that a member is to have, or says that it has."""

    active: TaskSets = _NONE
    standby: TaskSets = _NONE
    warmup: TaskSets = _NONE

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)


class HeldTasks(NamedTuple):
    """Tasks that a member has; active ones with the epoch in which it got them, which fences late commits."""

    active: TaskEpochs = _NONE
    standby: TaskSets = _NONE
    warmup: TaskSets = _NONE

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)

    def without_epochs(self) -> Tasks:
        """Return the tasks without epochs."""
        return Tasks({each: frozenset(tasks) for each, tasks in self.active.items()}, self.standby, self.warmup)

    @property
    def copies(self) -> TaskSets:
        """The tasks whose state is copied."""
        return _united(self.standby, self.warmup)

    def merged(self, other: "HeldTasks") -> "HeldTasks":
        """Return these tasks and others; the epochs of the others count."""
        active = {each: dict(tasks) for each, tasks in self.active.items()}
        for each, tasks in other.active.items():
            active.setdefault(each, {}).update(tasks)
        return HeldTasks(active, _united(self.standby, other.standby), _united(self.warmup, other.warmup))


class Owners(NamedTuple):
    """The processes that have each task now.

    Attributes:
        active: the process that runs it.
        standby, warmup: the processes that hold a copy of its state.
    """

    active: dict[Task, str]
    standby: dict[Task, set[str]]
    warmup: dict[Task, set[str]]


class DuplicateOffsetError(ValueError):
    """A member has told two offsets of one task."""


class ReportedOffsets(NamedTuple):
    """The offsets up to which a member has the state of tasks: of its own, and of those that are still on its disk.

    Attributes:
        reached: the sum of a task's offsets in its changelogs.
        ends: the sum of the end offsets of those.
    """

    reached: TaskOffsets = _NONE
    ends: TaskOffsets = _NONE

    def updated(self, reached: "Iterable[TaskOffset] | None", ends: "Iterable[TaskOffset] | None") -> "ReportedOffsets":
        """Return the offsets after a heartbeat; None changes nothing. Raise DuplicateOffsetError."""
        if reached is None and ends is None:
            return self
        return ReportedOffsets(
            self.reached if reached is None else _by_task(reached), self.ends if ends is None else _by_task(ends)
        )


NO_TASKS: Final = Tasks()
HOLDS_NOTHING: Final = HeldTasks()
NO_OFFSETS: Final[TaskOffsets] = _NONE
NOTHING_REPORTED: Final = ReportedOffsets()


def task_sets(named: Iterable[Any]) -> TaskSets:
    """Return the tasks that a message or a record names: its elements have a `subtopology_id` and `partitions`."""
    return {each.subtopology_id: frozenset(each.partitions) for each in named if each.partitions}


def _by_task(reported: "Iterable[TaskOffset]") -> TaskOffsets:
    found: dict[str, dict[int, int]] = {}
    for each in reported:
        offsets = found.setdefault(each.subtopology_id, {})
        if each.partition in offsets:
            raise DuplicateOffsetError(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
        offsets[each.partition] = each.offset
    return found


def have_common(some: Tasks, others: Tasks) -> bool:
    """Return whether both have a task in common, of the same kind."""
    return any(
        tasks & theirs.get(subtopology, frozenset())
        for ours, theirs in zip(some, others, strict=True)
        for subtopology, tasks in ours.items()
    )


def are_within(some: Tasks, others: Tasks) -> bool:
    """Return whether `others` have all tasks of `some`."""
    return all(
        tasks <= theirs.get(subtopology, frozenset())
        for ours, theirs in zip(some, others, strict=True)
        for subtopology, tasks in ours.items()
    )


def _united(some: TaskSets, others: TaskSets) -> TaskSets:
    return {
        each: some.get(each, frozenset()) | others.get(each, frozenset()) for each in (*some, *(others.keys() - some))
    }
