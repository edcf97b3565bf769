"""Loading of a partition of `__consumer_offsets`: its groups, made of what its records amount to."""

from collections.abc import Callable, Iterator
from typing import Final

from minibroker.clock import Clock
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.kinds import AnyGroup, restored
from minibroker.coordinators.groups.replay import Replay

_STEP: Final = 50
"""Groups that are made in one piece of work."""


class Loading(Replay):
    """The replay of a partition, the groups that come of it, and what happened to it meanwhile."""

    def __init__(self, make_group: Callable[[str], Group], clock: Clock, name: str) -> None:
        super().__init__(name)
        self._make_group = make_group
        self._clock = clock
        self.made: list[AnyGroup] = []
        self.ended: list[tuple[int, bool]] = []  # transactions: producer id, whether it was committed

    def finish(self) -> Iterator[None]:
        """Fill `groups`, and make groups of them."""
        yield from super().finish()
        for number, (group_id, (value, offsets)) in enumerate(self.groups.items(), 1):
            changes = self.modern_groups.get(group_id)
            if changes is None:
                group = self._make_group(group_id)
                group.offsets = offsets
                if value is not None:
                    group.restore(value)
                self.made.append(group)
            else:
                self.made.append(restored(group_id, changes, offsets, self._clock))
            if not number % _STEP:
                yield
