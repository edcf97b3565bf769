"""Misbehaviours that change the cluster or a group, by the operations that people have for it.

Each function returns whether it was possible. All run on the broker's event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.coordinators.groups.classic.group import Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from minibroker_protocol.messages.groups import MemberIdentity

if TYPE_CHECKING:
    from minibroker.coordinators.groups.registry import AnyGroup
    from minibroker.server.services import Services

_LEAVE: Final = -1


def move_leader(services: Services, topic_name: str, index: int, choice: int) -> bool:
    """Make another replica in sync the leader of a partition, the `choice`-th of them."""
    topic = services.core.topics.get(topic_name)
    partition = None if topic is None else topic.partition(index)
    if partition is None or partition.leader is None:
        return False
    leader, nodes = partition.leader.id, services.core.cluster.nodes
    others = [node_id for node_id in partition.isr if node_id != leader and nodes[node_id].is_up]
    if not others:
        return False
    services.core.writes.commit()
    services.core.cluster.move_leader(topic_name, index, others[choice % len(others)])
    return True


class MovedCoordinator:
    """A coordinator's partition that another broker leads until `end`, when the preferred one is elected again."""

    def __init__(self, services: Services, topic_name: str, index: int, before: int) -> None:
        self._services = services
        self._partition = topic_name, index
        self._before = before

    @classmethod
    def of(
        cls, services: Services, group_id: str | None, transactional_id: str | None, choice: int
    ) -> MovedCoordinator | None:
        """Move the coordinator of a group, or else of a transactional id, to another broker if that is possible."""
        if group_id is not None:
            name, index = CONSUMER_OFFSETS, services.groups.store.log.partition_of(group_id)
        elif transactional_id is not None:
            name, index = TRANSACTION_STATE, services.transactions.store.log.partition_of(transactional_id)
        else:
            return None
        topic = services.core.topics.get(name)
        leader = None if topic is None else topic.partitions[index].leader
        if leader is None or not move_leader(services, name, index, choice):
            return None
        return cls(services, name, index, leader.id)

    def end(self) -> None:
        """Move the coordinator back unless its broker is down or the topic is gone."""
        name, index = self._partition
        core = self._services.core
        if core.topics.get(name) is not None and core.cluster.node(self._before).is_up:
            core.writes.commit()
            core.cluster.move_leader(name, index, self._before)


def rebalance(services: Services, group_id: str | None) -> bool:
    """Make the members of a stable group join again or get new assignments, as if a member had come and gone."""
    group = _stable_group(services, group_id)
    if isinstance(group, Group):
        services.groups.rebalances.maybe_prepare(group)
        return True
    if isinstance(group, ConsumerGroup):
        return not services.groups.consumers.rebalance(group)
    return isinstance(group, ShareGroup) and not services.groups.shares.rebalance(group)


def remove_member(services: Services, group_id: str | None, member_id: str) -> bool:
    """Remove a member, as an operator does with Admin.removeMembersFromConsumerGroup (KIP-571)."""
    group = _stable_group(services, group_id)
    if group is None or member_id not in group.members:
        return False
    if isinstance(group, Group):
        return not any(services.groups.classic.leave(group.group_id, [MemberIdentity(member_id=member_id)]))
    if isinstance(group, ConsumerGroup):
        services.groups.consumers.leave(group.group_id, member_id, None, _LEAVE)
        return True
    return False


def _stable_group(services: Services, group_id: str | None) -> AnyGroup | None:
    if not group_id or services.core.topics.get(CONSUMER_OFFSETS) is None or services.groups.status(group_id):
        return None
    group = services.groups.store.find(group_id)
    if isinstance(group, Group) and group.state is not GroupState.STABLE:
        return None
    return group if group is not None and group.members else None


class StoppedBroker:
    """A broker that is down until `end`. It stops once the request at hand has been served."""

    def __init__(self, services: Services, node_id: int) -> None:
        self._services = services
        self._node_id = node_id
        services.core.call_soon(self._stop)
        self._is_over = False

    @classmethod
    def one_of(cls, services: Services, choice: int) -> StoppedBroker | None:
        """Stop the `choice`-th broker, unless one is down already."""
        cluster = services.core.cluster
        if len(cluster.up) < len(cluster.nodes):
            return None
        return cls(services, cluster.up[choice % len(cluster.up)].id)

    def _stop(self) -> None:
        if not self._is_over:
            self._services.core.writes.commit()
            self._services.core.cluster.stop_node(self._node_id)

    def end(self) -> None:
        """Start the broker again."""
        self._is_over = True
        self._services.core.cluster.start_node(self._node_id)
