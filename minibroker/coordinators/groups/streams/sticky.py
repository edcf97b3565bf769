"""The sticky assignor of streams groups (Kafka's `StickyTaskAssignor`).

A task stays with its member, or moves to a member with a copy of its state, unless that member has reached its quota.
The other tasks go to the process with the least load. A standby is never in the process that runs its task. A member
that has reported an offset of a task also has a copy of its state, and is considered after the standbys. The choice
between equal members depends on the order of Java's hash tables and queues.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, TypeVar

from minibroker.coordinators.groups.streams.tasks import NO_OFFSETS, Task, TaskOffsets, Tasks, sets_of
from minibroker.coordinators.java_order import hash_order, string_hash, table_size
from minibroker_protocol.java_text import utf16_order

T = TypeVar("T")


class JavaPriorityQueue(Generic[T]):
    """A queue like Java's `PriorityQueue`, with the smallest key first and the same order of equal keys."""

    __slots__ = ("_items", "_key")

    def __init__(self, items: Iterable[T], key: Callable[[T], float]) -> None:
        self._items: list[T] = []
        self._key = key
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        """Insert an element, and move it up to its place in the heap."""
        items, key = self._items, self._key
        items.append(item)
        index, value = len(items) - 1, key(item)
        while index > 0:
            parent = (index - 1) >> 1
            if value >= key(items[parent]):
                break
            items[index] = items[parent]
            index = parent
        items[index] = item

    def poll(self) -> T | None:
        """Remove and return the first element, or return None if the queue is empty. The last element replaces it."""
        items, key = self._items, self._key
        if not items:
            return None
        first, last = items[0], items.pop()
        size = len(items)
        if not size:
            return first
        index, value = 0, key(last)
        while index < size >> 1:
            child = 2 * index + 1
            if child + 1 < size and key(items[child]) > key(items[child + 1]):
                child += 1
            if value <= key(items[child]):
                break
            items[index] = items[child]
            index = child
        items[index] = last
        return first


class Process:
    """An application instance during the assignment, with its members and their tasks (Kafka's `ProcessState`).

    Attributes:
        load: The number of tasks per member.
        counts: The number of tasks of each member.
        active, standby: The tasks by member id.
    """

    def __init__(self) -> None:
        self.load = 0.0
        self.counts: dict[str, int] = {}
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self._tasks: set[Task] = set()
        self._total = 0
        self._by_load: JavaPriorityQueue[str] | None = None

    def has(self, task: Task) -> bool:
        """Return whether any member of the process has the task."""
        return task in self._tasks

    def give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Assign a task to a member, and return the member's new number of tasks."""
        self._by_load = None
        return self._give(member_id, task, is_active=is_active)

    def give_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Assign a task to the member with the fewest tasks, and return the member's new number of tasks.

        The process must have members.
        """
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, is_active=is_active)
        if (queue := self._by_load) is None:
            queue = self._by_load = JavaPriorityQueue(hash_order(self.counts, string_hash), self.counts.__getitem__)
        member_id = queue.poll()
        assert member_id is not None, "no process is without members"
        count = self._give(member_id, task, is_active=is_active)
        queue.add(member_id)
        return count

    def _give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self._total += 1
        self._tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        count = self.counts[member_id] = self.counts[member_id] + 1
        self.load = self._total / len(self.counts)
        return count


class StreamsMemberSpec(NamedTuple):
    """The assignor's view of a member: its process, its current tasks and its reported offsets."""

    process_id: str
    tasks: Tasks
    offsets: TaskOffsets = NO_OFFSETS


class TaskCounts(NamedTuple):
    """The assignor's view of a subtopology: the number of its tasks, and whether the tasks have state to copy."""

    tasks: int
    is_stateful: bool


class _Member(NamedTuple):
    process: Process
    member_id: str

    @property
    def tasks(self) -> int:
        return self.process.counts[self.member_id]


def assign_sticky(
    members: Mapping[str, StreamsMemberSpec], subtopologies: Mapping[str, TaskCounts], standbys: int
) -> dict[str, Tasks]:
    """Assign the tasks of a topology.

    Args:
        members: The members by id, in the order of joining.
        subtopologies: The subtopologies by id, sorted.
        standbys: The number of standbys for each task with a state.

    Returns:
        The tasks of each member, in the order of Kafka's records.
    """
    assignment = _Assignment(members, subtopologies, standbys)
    if members:
        assignment.assign_active()
        if standbys:
            assignment.assign_standbys()
    return assignment.result(members)


class _Quota:
    """The maximum number of tasks per member, adjusted when a member reaches it (`maybeUpdate...TasksPerMember`)."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = self._share()

    def note(self, count: int) -> None:
        """Adjust the quota if a member with `count` tasks has reached the quota."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    def __init__(
        self, members: Mapping[str, StreamsMemberSpec], subtopologies: Mapping[str, TaskCounts], standbys: int
    ) -> None:
        self._subtopologies = subtopologies
        self._standbys = standbys
        self._had_active: dict[Task, _Member] = {}
        candidates: dict[Task, list[tuple[bool, int, _Member]]] = {}
        active = sum(sub.tasks for sub in subtopologies.values())
        copies = sum(sub.tasks * standbys for sub in subtopologies.values() if sub.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + copies, len(members))
        processes: dict[str, Process] = {}
        process_count = 0
        for member_id in hash_order(members, string_hash):
            spec = members[member_id]
            process_count = len(processes)
            process = processes.setdefault(spec.process_id, Process())
            process.counts[member_id] = 0
            member = _Member(process, member_id)
            for subtopology, indexes in spec.tasks.active.items():
                self._had_active.update(((subtopology, index), member) for index in indexes)
            for subtopology, indexes in spec.tasks.standby.items():
                reported = spec.offsets.get(subtopology, {})
                for index in indexes:
                    candidates.setdefault((subtopology, index), []).append((False, -reported.get(index, 0), member))
            for subtopology, reported in spec.offsets.items():
                for index in reported.keys() - spec.tasks.standby.get(subtopology, frozenset()):
                    candidates.setdefault((subtopology, index), []).append((True, -reported[index], member))
        self._had_standby = {
            task: [entry[2] for entry in sorted(entries, key=itemgetter(0, 1))] for task, entries in candidates.items()
        }
        min_table_size = 1 << max(len(members) - 1, 0).bit_length()
        # Reproduce the order of Java's computeIfAbsent. It checks the table size before it inserts, and inserts at the
        # head of a bucket.
        ordered = hash_order(reversed(processes), string_hash, table_size(process_count, min_table_size))
        self._processes = [processes[process_id] for process_id in ordered]

    def _tasks(self, *, stateful_only: bool = False) -> list[Task]:
        return [
            (name, index)
            for name, subtopology in self._subtopologies.items()
            if subtopology.is_stateful or not stateful_only
            for index in range(subtopology.tasks)
        ]

    def assign_active(self) -> None:
        """Assign active tasks: first to their previous members, then to members with a standby, and then by load."""
        tasks = sorted(self._tasks(), key=_partition_sort_key)
        moved = [task for task in tasks if not self._keep_active(task, self._had_active.get(task))]
        free = [
            task for task in moved if not self._keep_active(task, _find_least_loaded(self._had_standby.get(task), None))
        ]
        queue = JavaPriorityQueue(self._processes, attrgetter("load"))
        for task in sorted(free, key=_task_sort_key):
            process = queue.poll()
            assert process is not None, "there are members"
            count = process.give_least_loaded(task, is_active=True)
            self._record_active(count)
            queue.add(process)

    def _keep_active(self, task: Task, member: _Member | None) -> bool:
        if member is None or member.tasks >= self._active_quota.each:
            return False
        self._record_active(member.process.give(member.member_id, task, is_active=True))
        return True

    def _record_active(self, count: int) -> None:
        self._active_quota.note(count)
        self._quota.note(count)

    def assign_standbys(self) -> None:
        """Assign the standbys of each task.

        The member that previously ran the task comes first, then its previous standbys, and then the least loaded
        processes.
        """
        unassigned: list[tuple[Task, int]] = []
        for task in sorted(self._tasks(stateful_only=True), key=_partition_sort_key, reverse=True):
            assigned_copies = 0
            while assigned_copies < self._standbys and self._keep_standby(task):
                assigned_copies += 1
            if assigned_copies < self._standbys:
                unassigned.append((task, self._standbys - assigned_copies))
        queue = JavaPriorityQueue(self._processes, attrgetter("load"))
        for task, copies in sorted(unassigned, key=lambda entry: _task_sort_key(entry[0]), reverse=True):
            for _ in range(copies):
                # Every process already has the task, so no further copy can be placed.
                if not self._give_standby(queue, task):
                    break

    def _keep_standby(self, task: Task) -> bool:
        previous = self._had_active.get(task)
        if previous is None or previous.process.has(task) or previous.tasks >= self._quota.each:
            previous = _find_least_loaded(self._had_standby.get(task), task)
        if previous is None or previous.tasks >= self._quota.each:
            return False
        self._quota.note(previous.process.give(previous.member_id, task, is_active=False))
        return True

    def _give_standby(self, queue: JavaPriorityQueue[Process], task: Task) -> bool:
        polled: list[Process] = []
        is_assigned = False
        while not is_assigned and (process := queue.poll()) is not None:
            polled.append(process)
            if not process.has(task):
                self._quota.note(process.give_least_loaded(task, is_active=False))
                is_assigned = True
        for process in reversed(polled):
            queue.add(process)
        return is_assigned

    def result(self, members: Iterable[str]) -> dict[str, Tasks]:
        """Return the tasks of each member."""
        active: dict[str, set[Task]] = {}
        standby: dict[str, set[Task]] = {}
        for process in self._processes:
            active.update(process.active)
            standby.update(process.standby)
        return {
            member_id: Tasks(sets_of(active.get(member_id, ())), sets_of(standby.get(member_id, ())))
            for member_id in hash_order(members, string_hash)
        }


def _find_least_loaded(members: list[_Member] | None, task: Task | None) -> _Member | None:
    """Return the least loaded member whose process does not have the task (`findPrevMemberWithLeastLoad`)."""
    lightest = None
    for member in members or ():
        if task is not None and member.process.has(task):
            continue
        if lightest is None or (member.process.load < lightest.process.load and member.tasks < lightest.tasks):
            lightest = member
    return lightest


def _partition_sort_key(task: Task) -> tuple[int, bytes]:
    return task[1], utf16_order(task[0])


def _task_sort_key(task: Task) -> tuple[bytes, int]:
    return utf16_order(task[0]), task[1]
