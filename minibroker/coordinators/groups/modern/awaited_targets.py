"""Target assignments that are made in slices of the event loop, and written when they are there.

A small group has its target in the first slice, and the response to that heartbeat has it. Otherwise heartbeats are
answered by the present target until the new one is there.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.support.slices import Slices, Steps, Work
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import NewRecord

T = TypeVar("T")
_logger = logging.getLogger(__name__)


AssignedGroup = ShareGroup | StreamsGroup
"""A group whose targets one assignor makes from the whole group."""


class AwaitedTargets(Generic[T]):
    """Writes the targets that take longer.

    Args:
        target_assignment: the record of a member's target, by group id, member id and target.
        assignment_epoch: the record of a target's epoch, by group id, epoch and time.
    """

    def __init__(
        self,
        slices: Slices,
        store: GroupStore,
        target_assignment: Callable[[str, str, T], Change],
        assignment_epoch: Callable[[str, int, int], Change],
    ) -> None:
        self.slices = slices
        self._store = store
        self._target_assignment = target_assignment
        self._assignment_epoch = assignment_epoch

    def await_target(self, group: AssignedGroup, work: Work[dict[str, T]], epoch: int) -> None:
        """Have the target for an epoch of the group written when it is made; until then no other one is begun."""
        group.is_assigning = True
        work.then(partial(self._made, group, epoch), partial(self._failed, group))

    def changes(
        self, group: AssignedGroup, made: Mapping[str, T], epoch: int, before: Mapping[str, T] | None = None
    ) -> list[Change]:
        """The records of a target that is there at once; `before` is the one before it, if not the group's."""
        present = group.target if before is None else before
        changed = [
            self._target_assignment(group.group_id, member_id, target)
            for member_id, target in made.items()
            if present.get(member_id) != target
        ]
        return [*changed, self._assignment_epoch(group.group_id, epoch, self._store.now_ms())]

    def _made(self, group: AssignedGroup, epoch: int, target: dict[str, T]) -> None:
        writing = self.slices.begin(self._write(group, epoch, target))
        if isinstance(writing, Work):
            writing.then(partial(self._written, group), partial(self._failed, group))
        else:
            self._written(group, writing)

    @staticmethod
    def _written(group: AssignedGroup, code: ErrorCode) -> None:
        group.is_assigning = False
        if code:
            _logger.warning("The assignment of group %s could not be stored: %s", group.group_id, code.name)

    @staticmethod
    def _failed(group: AssignedGroup, error: Exception) -> None:
        group.is_assigning = False
        _logger.error("No assignment could be made for group %s", group.group_id, exc_info=error)

    def _write(self, group: AssignedGroup, epoch: int, target: dict[str, T]) -> Steps[ErrorCode]:
        """Write a target. A member that has left meanwhile gets nothing."""
        now_ms = self._store.now_ms()
        ready: dict[str, tuple[T, NewRecord]] = {}
        for member_id, each in target.items():
            if group.target.get(member_id) != each:
                record = self._target_assignment(group.group_id, member_id, each).encode(now_ms)
                ready[member_id] = each, record
                yield
        if self._store.find(group.group_id) is not group or not group.assignment_epoch < epoch <= group.epoch:
            return ErrorCode.NONE  # an emptied group has the assignment of its epoch
        there = {member_id: each for member_id, each in ready.items() if member_id in group.members}
        changed = {member_id: each for member_id, (each, _) in there.items()}
        done = self._assignment_epoch(group.group_id, epoch, now_ms)
        return self._store.save_target(group, changed, [record for _, record in there.values()], done)
