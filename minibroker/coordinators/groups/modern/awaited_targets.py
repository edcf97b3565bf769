"""Target assignments that are made in slices of the event loop, and written when they are there.

A small group has its target in the first slice, and the response to that heartbeat has it. Otherwise heartbeats are
answered by the present target until the new one is there.
"""

import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import Generic, TypeVar

from minibroker.coordinators.groups.kinds import ModernGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.support.slices import Slices, Steps, Work
from minibroker_protocol.error_codes import ErrorCode

_logger = logging.getLogger(__name__)

G = TypeVar("G", bound=ModernGroup)
T = TypeVar("T")


class AwaitedTargets(ABC, Generic[G, T]):
    """Writes the targets that take longer than a slice: `T` is the target of a group `G`.

    Attributes:
        slices: do what takes more than a slice.
    """

    def __init__(self, slices: Slices, store: GroupStore) -> None:
        self.slices = slices
        self._store = store

    def await_target(self, group: G, work: Work[T], epoch: int) -> None:
        """Have the target for an epoch of the group written when it is made; until then no other one is begun."""
        group.is_assigning = True
        work.then(partial(self._made, group, epoch), partial(self._failed, group))

    @abstractmethod
    def _write(self, group: G, epoch: int, target: T) -> Steps[ErrorCode]:
        """Write a target. What has changed since it was begun counts."""

    def _is_due(self, group: G, epoch: int) -> bool:
        """Whether a target is still to be written. An emptied group has the assignment of its epoch."""
        return self._store.find(group.group_id) is group and group.assignment_epoch < epoch <= group.epoch

    def _made(self, group: G, epoch: int, target: T) -> None:
        writing = self.slices.begin(self._write(group, epoch, target))
        if isinstance(writing, Work):
            writing.then(partial(self._written, group), partial(self._failed, group))
        else:
            self._written(group, writing)

    @staticmethod
    def _written(group: G, code: ErrorCode) -> None:
        group.is_assigning = False
        if code:
            _logger.warning("The assignment of group %s could not be stored: %s", group.group_id, code.name)

    @staticmethod
    def _failed(group: G, error: Exception) -> None:
        group.is_assigning = False
        _logger.error("No assignment could be made for group %s", group.group_id, exc_info=error)
