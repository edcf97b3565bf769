"""Target assignments with one value for each member, and a record for each value: those of share and streams groups."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from minibroker.coordinators.groups.modern.awaited_targets import AwaitedTargets
from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.support.slices import Slices, Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import NewRecord

G = TypeVar("G", bound=ShareGroup | StreamsGroup)
T = TypeVar("T")


class MemberTargets(AwaitedTargets[G, dict[str, T]], Generic[G, T]):
    """Targets by member id.

    Args:
        slices: do what takes more than a slice.
        store: has the groups.
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
        super().__init__(slices, store)
        self._target_assignment = target_assignment
        self._assignment_epoch = assignment_epoch

    def changes(
        self, group: G, made: Mapping[str, T], epoch: int, before: Mapping[str, T] | None = None
    ) -> list[Change]:
        """The records of a target that is there at once; `before` is the one before it, if not the group's."""
        present = group.target if before is None else before
        changed = [
            self._target_assignment(group.group_id, member_id, target)
            for member_id, target in made.items()
            if present.get(member_id) != target
        ]
        return [*changed, self._assignment_epoch(group.group_id, epoch, self._store.now_ms())]

    def _write(self, group: G, epoch: int, target: dict[str, T]) -> Steps[ErrorCode]:
        """Write a target. A member that has left meanwhile gets nothing."""
        now_ms = self._store.now_ms()
        ready: dict[str, tuple[T, NewRecord]] = {}
        for member_id, each in target.items():
            if group.target.get(member_id) != each:
                record = self._target_assignment(group.group_id, member_id, each).encode(now_ms)
                ready[member_id] = each, record
                yield
        if not self._is_due(group, epoch):
            return ErrorCode.NONE
        there = {member_id: each for member_id, each in ready.items() if member_id in group.members}
        changed = {member_id: each for member_id, (each, _) in there.items()}
        done = self._assignment_epoch(group.group_id, epoch, now_ms)
        return self._store.save_target(group, changed, [record for _, record in there.values()], done)
