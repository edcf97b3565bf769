"""The group coordinator: all groups of the broker (Kafka's `GroupCoordinatorService`).

Request handlers interpret the requests and call the coordinator.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minibroker.cluster.core import Core
from minibroker.cluster.node import Node
from minibroker.coordinators.groups.classic.coordinator import ClassicGroups
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.classic.rebalances import Rebalances
from minibroker.coordinators.groups.consumer.coordinator import ConsumerGroups
from minibroker.coordinators.groups.consumer.reconciliation import Rules
from minibroker.coordinators.groups.modern.coordinator import ModernGroups
from minibroker.coordinators.groups.registry import AnyGroup, AnyModernGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.coordinators.groups.share import coordinator as share_coordinator
    from minibroker.coordinators.groups.share import offsets
    from minibroker.coordinators.groups.streams import coordinator as streams_coordinator

if TYPE_CHECKING:
    from minibroker.coordinators.groups.share.coordinator import ShareGroups
    from minibroker.coordinators.groups.share.offsets import ShareOffsets
    from minibroker.coordinators.groups.streams.coordinator import StreamsGroups
    from minibroker.coordinators.share_state.coordinator import ShareCoordinator
    from minibroker.security.authorization.authorizer import Authorizer


class GroupCoordinator:
    """All groups of one broker.

    Args:
        authorizer: Checks which topics a member can see. None if every client has all rights.
        share_states: Returns the share coordinator. The first call creates it.
        forgotten: The ids of modern groups that were dropped deliberately. Their members must join again.
        is_before: Returns whether the broker emulates a Kafka release earlier than the given one.

    Attributes:
        store: The records and offsets of all groups.
        rebalances: The rebalances of classic groups.
        consumers: The groups of the consumer protocol.
        classic: Serves requests from members of the classic protocol.
    """

    def __init__(
        self,
        core: Core,
        authorizer: "Authorizer | None",
        share_states: "Callable[[], ShareCoordinator]",
        forgotten: set[str],
        is_before: Callable[[str], bool],
    ) -> None:
        self._core = core
        self._share_states = share_states
        self._forgotten = forgotten
        self.store = GroupStore(core, self._on_loaded, self._on_forgotten)
        self.rebalances = Rebalances(core, self.store)
        rules = Rules.of(is_before)
        self.consumers = ConsumerGroups(core, self.store, self.rebalances, authorizer, forgotten, rules)
        self.classic = ClassicGroups(
            core, self.store, self.rebalances, self.consumers, self.status, is_before_4_0=is_before("4.0")
        )

    @cached_property
    def shares(self) -> "ShareGroups":
        """The coordinator of share groups, created on first use."""
        return share_coordinator.ShareGroups(self._core, self.store, self._share_states, self._forgotten)

    @cached_property
    def streams(self) -> "StreamsGroups":
        """The coordinator of streams groups, created on first use."""
        return streams_coordinator.StreamsGroups(self._core, self.store, self._forgotten)

    @cached_property
    def share_offsets(self) -> "ShareOffsets":
        """The start offsets of share groups, for administrators' requests."""
        return offsets.ShareOffsets(self.shares)

    def status(self, group_id: str, node: Node | None = None) -> ErrorCode:
        """Return INVALID_GROUP_ID, or the result of `GroupStore.check_readiness`."""
        return self.store.check_readiness(group_id, node) if group_id else ErrorCode.INVALID_GROUP_ID

    def forget_all(self) -> None:
        """Make waiting members look up their coordinators again, and cancel all timers."""
        for group in self.store.groups():
            if not isinstance(group, Group):
                self._forgotten.add(group.group_id)
            self._on_forgotten(group)
        self.close()

    def close(self) -> None:
        """Cancel all timers."""
        self.store.close()
        self.rebalances.close()
        self.consumers.close()
        if "shares" in self.__dict__:
            self.shares.close()
        if "streams" in self.__dict__:
            self.streams.close()

    def _coordinator_of(self, group: AnyModernGroup) -> ModernGroups[Any]:
        """Return the coordinator of a group."""
        if isinstance(group, ShareGroup):
            return self.shares
        return self.streams if isinstance(group, StreamsGroup) else self.consumers

    def _on_loaded(self, group: AnyGroup) -> None:
        if isinstance(group, Group):
            self.rebalances.resume(group)
        else:
            self._coordinator_of(group).resume(group)

    def _on_forgotten(self, group: AnyGroup) -> None:
        if isinstance(group, Group):
            self.rebalances.forget(group)
        else:
            self._coordinator_of(group).forget(group)
