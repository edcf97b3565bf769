"""An instance of a streams application while tasks are assigned (Kafka's `ProcessState`)."""

from minibroker.coordinators.groups.streams.java_queue import JavaQueue
from minibroker.coordinators.java_order import hash_order, string_hash

Task = tuple[str, int]
"""A subtopology and a partition."""


class Process:
    """One instance: its members, and what they have been given.

    Attributes:
        load: tasks for each member.
        counts: the tasks of each member, whatever they are.
        active, standby: by member.
    """

    def __init__(self) -> None:
        self.load = 0.0
        self.counts: dict[str, int] = {}
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self._tasks: set[Task] = set()
        self._total = 0
        self._by_load: JavaQueue[list[str | int]] | None = None

    def add_member(self, member_id: str) -> None:
        """It has one member more."""
        self.counts[member_id] = 0

    def has(self, task: Task) -> bool:
        """Has a member of it the task?"""
        return task in self._tasks

    def give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a member a task; returns how many it has."""
        count = self._give(member_id, task, is_active=is_active)
        self._by_load = None
        return count

    def give_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Give a task to the member with the fewest; returns how many that has. There has to be one."""
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, is_active=is_active)
        queue = self._by_load
        if queue is None:
            ordered = hash_order(self.counts, string_hash)
            queue = self._by_load = JavaQueue([[each, self.counts[each]] for each in ordered], _count)
        entry = queue.poll()
        assert entry is not None, "no process is without members"
        count = entry[1] = self._give(str(entry[0]), task, is_active=is_active)
        queue.add(entry)
        return count

    def _give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self._total += 1
        self._tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        count = self.counts[member_id] = self.counts[member_id] + 1
        self.load = self._total / len(self.counts)
        return count


def _count(entry: list[str | int]) -> int:
    return int(entry[1])
