"""The group coordinator: all groups of the broker (Kafka's `GroupCoordinator`).

What a request asks for is decided in its handler.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from minibroker.cluster.node import Node
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.classic.rebalances import Rebalances
from minibroker.coordinators.groups.consumer.coordinator import ConsumerGroups
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.kinds import AnyGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.core import Core
from minibroker_protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from minibroker.security.authorization.authorizer import Authorizer


class GroupCoordinator:
    """All groups of one broker.

    Args:
        authorizer: decides which topics members may see; None where everybody may do everything.
        forgotten: groups of the consumer protocol that were forgotten on purpose; their members have to join again.

    Attributes:
        store: their records, and their offsets.
        rebalances: who comes and goes in classic groups, and when.
        consumers: the same for groups of the consumer protocol.
    """

    def __init__(self, core: Core, authorizer: "Authorizer | None", forgotten: set[str]) -> None:
        self._clock = core.clock
        self._forgotten = forgotten
        self.store = GroupStore(core, self._make_group, on_loaded=self._on_loaded, on_forgotten=self._on_forgotten)
        self.rebalances = Rebalances(core, self.store)
        self.consumers = ConsumerGroups(core, self.store, self.rebalances, authorizer, forgotten)

    def status(self, group_id: str, node: Node | None = None) -> ErrorCode:
        """May a member's request for this group be served? INVALID_GROUP_ID, or what `GroupStore.readiness` says."""
        return self.store.readiness(group_id, node) if group_id else ErrorCode.INVALID_GROUP_ID

    def load_all(self) -> None:
        """Read what earlier runs have left."""
        self.store.load_all()

    def leader_moved(self, partition: int) -> None:
        """Another node coordinates the groups of a partition of `__consumer_offsets`."""
        self.store.leader_moved(partition)

    def forget_all(self) -> None:
        """Have members that wait ask again who coordinates their groups, and let nothing happen any more."""
        for group in self.store.groups():
            if isinstance(group, ConsumerGroup):
                self._forgotten.add(group.group_id)
            self._on_forgotten(group)
        self.close()

    def close(self) -> None:
        """Let nothing happen any more."""
        self.store.close()
        self.rebalances.close()
        self.consumers.close()

    def topics_deleted(self, names: Collection[str]) -> None:
        """Forget what groups have committed for topics that are gone."""
        self.store.topics_deleted(names)

    def _make_group(self, group_id: str) -> Group:
        return Group(group_id, self._clock)

    def _on_loaded(self, group: AnyGroup) -> None:
        if isinstance(group, Group):
            self.rebalances.resume(group)
        else:
            self.consumers.resume(group)

    def _on_forgotten(self, group: AnyGroup) -> None:
        if isinstance(group, Group):
            self.rebalances.forget(group)
        else:
            self.consumers.forget(group)
