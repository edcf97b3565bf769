"""Misbehaviours that change the cluster or a group, by the operations that people have for it.

Each function returns whether it was possible. All run on the broker's event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.coordinators.groups.classic.group import Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import faults_of
from minibroker.server.faults.stale_metadata import MetadataHistory
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from minibroker_protocol.messages.groups import MemberIdentity
from minibroker_storage.views.snapshot import batch_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minibroker.cluster.partition import Partition
    from minibroker.coordinators.groups.registry import AnyGroup
    from minibroker.server.requests.declarations import Target
    from minibroker.server.services import Services

_LEAVE: Final = -1
_FEW_REPLICAS: Final = 2
_CHANGES: Final = 64
"""The changes of the metadata that a broker can miss."""


def move_leader(services: Services, topic_name: str, index: int, choice: int) -> bool:
    """Make another replica in sync the leader of a partition, the `choice`-th of them."""
    topic = services.core.topics.get(topic_name)
    partition = None if topic is None else topic.partition(index)
    if partition is None or partition.leader is None:
        return False
    to = _choose_follower(services, partition, choice)
    if to is None:
        return False
    services.core.writes.commit()
    services.core.cluster.move_leader(topic_name, index, to)
    return True


def _choose_follower(services: Services, partition: Partition, choice: int) -> int | None:
    """Return the in-sync follower that `choice` selects, or None if there is none."""
    nodes = services.core.cluster.nodes
    others = [id_ for id_ in partition.isr if nodes[id_] is not partition.leader and nodes[id_].is_up]
    return others[choice % len(others)] if others else None


class LaggingReplicas:
    """Partitions whose followers fetch nothing until `end`, so that their high watermarks stand still.

    Records above the high watermark are not shown, and producers with acks=all wait. Transaction markers are not
    written, so that read_committed waits at the start of the transaction.

    Args:
        services: The services of the broker.
        partitions: The partitions, whose followers must not lag already.
        out_of_sync: Whether the followers leave the ISR, so that acks=all is refused.
    """

    def __init__(self, services: Services, partitions: Sequence[Partition], *, out_of_sync: bool = False) -> None:
        self._services = services
        self._partitions = partitions
        services.core.writes.commit()
        for partition in partitions:
            partition.log.hold()
            if out_of_sync:
                services.core.cluster.shrink_isr(partition)

    @classmethod
    def of(cls, services: Services, target: Target, *, out_of_sync: bool = False) -> LaggingReplicas | None:
        """Let the followers of a partition lag, or return None if it has none, lags already, or is internal."""
        topic = services.core.topics.get(target.topic or "")
        partition = None if topic is None else topic.partition(target.partition or 0)
        if partition is None or partition.topic.is_internal or not _may_lag(partition):
            return None
        if out_of_sync and partition.topic.min_insync_replicas < _FEW_REPLICAS:
            return None  # The leader alone would be enough for acks=all, and for the high watermark.
        return cls(services, [partition], out_of_sync=out_of_sync)

    @classmethod
    def at_markers(cls, services: Services, transactional_id: str | None, choice: int) -> LaggingReplicas | None:
        """Let followers lag in one partition of a transaction, or in all its partitions if `choice` is 0."""
        if services.core.topics.get(TRANSACTION_STATE) is None:
            return None
        transaction = services.transactions.store.get(transactional_id or "")
        names = sorted(() if transaction is None else transaction.partitions)
        chosen = names if choice == 0 or not names else [names[choice % len(names)]]
        found = (services.core.topics.find_partition(*name) for name in chosen)
        partitions = [partition for partition in found if partition is not None and _may_lag(partition)]
        return cls(services, partitions) if partitions else None

    def fail_over(self, choice: int, lost: int) -> bool:
        """Make the `choice`-th follower the leader, which lacks the last `lost` unreplicated batches."""
        (partition,) = self._partitions
        core = self._services.core
        core.writes.commit()
        name, index = partition.topic.name, partition.index
        to = _choose_follower(self._services, partition, choice)
        if to is None or core.topics.find_partition(name, index) is not partition:
            return False
        log = partition.log
        ends = [batch.base_offset for batch in batch_page(log, log.high_watermark).batches]
        cut = ends[-min(lost, len(ends))] if lost and ends else log.log_end_offset
        core.cluster.fail_over(name, index, to, cut, core.clock.now_ms())
        return True

    def end(self) -> None:
        """Let the followers catch up, and write the markers."""
        for partition in self._partitions:
            self._services.core.cluster.restore_isr(partition)
            partition.log.release()
        if self._services.core.topics.get(TRANSACTION_STATE) is not None:
            self._services.transactions.retry_markers()


def _may_lag(partition: Partition) -> bool:
    return partition.leader is not None and len(partition.replicas) > 1 and not partition.log.is_held


class OldView:
    """A broker whose Metadata responses stay as they are now, until `end`.

    Attributes:
        node_id: The broker.
        fault: The fault that its Metadata requests get meanwhile. It is not installed.
    """

    def __init__(self, services: Services, node_id: int) -> None:
        self._faults = faults_of(services)
        self.node_id = node_id
        self.fault = Fault(api="Metadata", node=node_id, stale_metadata=_CHANGES)
        # The history begins here, so the view is never older than what clients have already been told.
        self._faults.history = MetadataHistory(services, _CHANGES)

    @classmethod
    def one_of(cls, services: Services, choice: int) -> OldView | None:
        """Freeze the view of the `choice`-th broker, unless an installed fault makes metadata stale already."""
        if faults_of(services).needs_history:
            return None
        up = services.core.cluster.up
        return cls(services, up[choice % len(up)].id)

    def end(self) -> None:
        """Let the broker apply all changes."""
        if not self._faults.needs_history:
            self._faults.history = None


def forget_producer(services: Services, target: Target, producer_id: int) -> bool:
    """Forget the expired producers of a partition now, and return whether the given one was among them.

    By the timestamps of their records, which clients choose, they have written nothing for
    `producer.id.expiration.ms`. Kafka looks for such producers every ten minutes.
    """
    partition = services.core.topics.find_partition(target.topic or "", target.partition or 0)
    if partition is None or producer_id not in partition.log.producers.active:
        return False
    services.core.writes.commit()
    producers = partition.log.producers
    producers.remove_expired(services.core.clock.now_ms())
    return producer_id not in producers.active


def move_coordinator(services: Services, group_id: str | None, transactional_id: str | None, choice: int) -> bool:
    """Make another broker the coordinator of a group, or else of a transactional id."""
    if group_id is not None:
        return move_leader(services, CONSUMER_OFFSETS, services.groups.store.log.partition_of(group_id), choice)
    if transactional_id is not None:
        index = services.transactions.store.log.partition_of(transactional_id)
        return move_leader(services, TRANSACTION_STATE, index, choice)
    return False


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


def member_ids(services: Services, group_id: str | None) -> list[str]:
    """Return the ids of the members of a stable group, or none."""
    group = _stable_group(services, group_id)
    return [] if group is None else list(group.members)


class StalledRequest:
    """A request that is served at `end`.

    Attributes:
        limit_s: The most time that it waits.
        fault: The fault to hit it with.
    """

    def __init__(self, services: Services, limit_s: float) -> None:
        self._late = faults_of(services).late
        self.limit_s = limit_s
        self.fault = Fault(delay_ms=2000 * limit_s)
        self.fault.delays_request = True

    def end(self) -> None:
        """Serve the request."""
        self._late.release(self.fault)


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
