"""The cluster: its nodes, its controller, the leaders of partitions (Kafka's `ReplicationControlManager`).

All of them share the topics, the groups, the transactions and one copy of each log. What tells them apart is what a
Kafka cluster shows its clients: where they listen, and which node answers for a partition or a coordinator.

Replicas follow Kafka's `ReplicationControlManager` and `PartitionChangeBuilder`. A node that goes leaves each ISR in
which it is not the last one, and the next replica in sync becomes the leader in a new epoch. Where no other replica is
in sync, the partition is offline. A node that comes back leads the partitions without a leader, and is in sync at once.

All methods belong to the event loop's thread.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.replicas import Replicas, assign_replicas, stripe_replicas

if TYPE_CHECKING:
    from minibroker.cluster.topics import Topic, Topics
    from minibroker.config import BrokerConfig

_logger = logging.getLogger(__name__)


class ClusterError(ValueError):
    """A change of the cluster that is not possible; the message says why."""


class Cluster:
    """The nodes, and what they lead.

    Attributes:
        cluster_id: as the data directory has it.
        nodes: by node id, which count up from that of the first.
        first: the node with the lowest id.
        racks: the racks by node id, of nodes that have one.
        is_single: there is only one node, however often it is stopped.
        controller: the one in responses to clients; None while no node is up.
        controller_epoch: counts the controllers that there have been.
        topics: whose partitions they keep; set once these are read.
        first_epoch: the leader epoch with which partitions begin; see `forget_leaders`.
        on_leader_moved: called with each partition that has another leader, or none any more.
        unregistered: the ids of nodes that UnregisterBroker has removed, until they are started again.
    """

    def __init__(
        self,
        first_id: int = 1,
        count: int = 1,
        config: "BrokerConfig | None" = None,
        *,
        cluster_id: str = "",
        racks: Sequence[str] = (),
        is_kraft: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        rack_of_all = None if config is None else config.optional_text("broker.rack")
        given = racks or [""] * count
        self.racks = {first_id + at: rack for at, each in enumerate(given) if (rack := each or rack_of_all)}
        self._is_kraft = is_kraft
        slots = 0 if config is None else config.integer("max.incremental.fetch.session.cache.slots")
        self.nodes = {
            node_id: Node(node_id, self.racks.get(node_id), slots) for node_id in range(first_id, first_id + count)
        }
        self.first = self.nodes[first_id]
        self.controller: Node | None = self.first
        self.controller_epoch = 1
        self.topics: Topics | None = None
        self.on_leader_moved: Callable[[Partition], None] = _nothing
        self.is_single = count == 1
        self.unregistered: set[int] = set()
        self.first_epoch = 0
        self._start = 0
        self._moved: list[Partition] = []
        self._is_noted = True

    @property
    def up(self) -> list[Node]:
        """The nodes that are up."""
        return [node for node in self.nodes.values() if node.is_up]

    def node(self, node_id: int) -> Node:
        """The node with this id. ClusterError."""
        node = self.nodes.get(node_id)
        if node is None:
            raise ClusterError(f"there is no node {node_id}; there are {', '.join(map(str, self.nodes))}")
        return node

    # Where partitions are

    def assign_replicas(self, partitions: int, factor: int) -> list[Replicas]:
        """Replicas for a new topic, on nodes that are up if there are enough of them; each topic begins at another one.

        `factor` is at most the number of nodes.
        """
        up = [node.id for node in self.up]
        # In turn, where Kafka begins at a random node: tests get the same leaders each time.
        start, self._start = self._start, self._start + 1
        nodes = up if factor <= len(up) else tuple(self.nodes)
        # Without racks, too, KRaft's placement differs only after the first round, where it is random.
        if self.racks and self._is_kraft:
            return stripe_replicas(nodes, partitions, factor, start=start, racks=self.racks)
        return assign_replicas(nodes, partitions, factor, start=start, racks=self.racks)

    def assign_more_replicas(self, topic: "Topic", partitions: int) -> list[Replicas]:
        """Replicas for further partitions of a topic, as if they had been there from its beginning."""
        nodes = tuple(self.nodes)
        known = topic.partitions[0].replicas
        factor, present = min(len(known), len(nodes)), len(topic.partitions)
        if self.racks and self._is_kraft:
            return stripe_replicas(nodes, partitions, factor, start=present, racks=self.racks)
        start = nodes.index(known[0])
        return assign_replicas(nodes, partitions, factor, start=start, first_partition=present, racks=self.racks)

    def settle(self, partition: Partition, replicas: Replicas | None = None) -> None:
        """Give a new partition its replicas (None: one node each, in turn) and, if any of them is up, a leader."""
        if replicas is None:
            ids = tuple(self.nodes)
            replicas = (ids[partition.index % len(ids)],)
        partition.replicas = replicas
        partition.leader_epoch = self.first_epoch
        in_sync = tuple(each for each in replicas if self.nodes[each].is_up)
        # An ISR is never empty: with all replicas down the first one counts as the last that was in sync.
        partition.set_isr(in_sync or replicas[:1])
        partition.leader = self.nodes[in_sync[0]] if in_sync else None

    def restore(self, partition: Partition, replicas: Iterable[int] | None, leader: int | None, epoch: int) -> None:
        """Give a partition what an earlier run has left, as far as its nodes exist; at a start all of them are up."""
        known = tuple(each for each in replicas or () if each in self.nodes)
        self.settle(partition, known or None)
        if leader in partition.replicas:
            partition.leader = self.nodes[leader]
        assert partition.leader is not None
        led_before = self.first.id if replicas is None else leader  # alone, or none
        partition.leader_epoch = max(self.first_epoch, epoch if partition.leader.id == led_before else epoch + 1)

    def forget_leaders(self) -> None:
        """All topics are about to go, and others may come under their names.

        These begin with a leader epoch that is higher than any before. Clients that stay take metadata with a lower one
        for out of date, and with a higher one look whether the log still has what they have read (KIP-320).
        """
        self.first_epoch = max([self.first_epoch, *(each.leader_epoch for each in self._partitions())]) + 1

    # Who leads

    def move_leader(self, topic_name: str, index: int, to: int) -> None:
        """Make the node `to` the leader of a partition, in a new epoch.

        One that is no replica becomes one, in the place of the leader before, as if the partition had been reassigned.
        ClusterError if there is no such partition or node, or the node is down. To move it to where it is does nothing.
        """
        node = self.node(to)
        partition = self._partition(topic_name, index)
        if not node.is_up:
            raise ClusterError(f"{topic_name}-{index} cannot move to node {to}, which is down")
        if partition.leader is node:
            return
        # A test asks for this node: a reassignment first would be two steps for the one thing that it wants.
        if to not in partition.replicas:
            given_up = partition.replicas[0] if partition.leader is None else partition.leader.id
            partition.replicas = tuple(to if each == given_up else each for each in partition.replicas)
            isr = {*partition.isr, to} - {given_up}
        else:
            isr = {*partition.isr, to}
        partition.set_isr(tuple(each for each in partition.replicas if each in isr))
        self._lead(partition, node)
        self.note()
        self._tell()

    def elect_leader(self, partition: Partition, *, unclean: bool) -> bool:
        """Have the preferred replica lead, if it is in sync; does it? `note` that behind the last partition.

        If `unclean`, any replica that is up will do where there is no leader, those in sync first.
        """
        chosen: Node | None
        if unclean:
            chosen = partition.leader or self._next_leader(partition, unclean=True)
        else:
            preferred = self.nodes[partition.replicas[0]]
            # A preferred replica that is not in sync would lose records (`PREFERRED_LEADER_NOT_AVAILABLE`).
            chosen = preferred if preferred.is_up and preferred.id in partition.isr else None
        if chosen is None:
            return False
        self._lead(partition, chosen)
        self._tell()
        return True

    def elect_missing_leaders(self, partitions: Iterable[Partition]) -> None:
        """Elect leaders for those of these partitions that have none, where the configuration now allows that."""
        for partition in partitions:
            if partition.leader is None:
                self._lead(partition, self._next_leader(partition))
        self.note()
        self._tell()

    def reassign(self, partition: Partition, replicas: Replicas) -> None:
        """Give a partition other replicas, of which at least one is up; those that are up are in sync at once.

        `note` that behind the last partition. The leader goes on if it stays a replica. An epoch begins where a
        replica has gone, as in Kafka.
        """
        if replicas == partition.replicas:
            return
        gone = set(partition.replicas).difference(replicas)
        partition.replicas = replicas
        in_sync = tuple(each for each in replicas if self.nodes[each].is_up)
        partition.set_isr(in_sync)
        partition.topic.changed()
        leader = partition.leader
        if leader is None or leader.id not in in_sync:
            self._lead(partition, self.nodes[in_sync[0]])
        elif gone:
            partition.leader_epoch += 1
            self._moved.append(partition)
        self._is_noted = False
        self._tell()

    def stop_node(self, node_id: int) -> None:
        """Take a node down: its listener closes, its connections end, others lead what it has led.

        The loop closes the listener in its next rounds; `settled` waits for that. ClusterError if there is no such
        node. One that is down stays so.
        """
        node = self.node(node_id)
        if not node.is_up:
            return
        node.is_up = False
        if node.listener is not None:
            node.listener.close()
        node.forget_sessions()
        if self.controller is node:
            self._choose_controller(next(iter(self.up), None))
        for partition in self._partitions():
            if node_id in partition.replicas:
                self._lose(partition, node)
                partition.topic.changed()
        self.note()
        self._tell()
        _logger.info("node %d is down", node_id)

    def start_node(self, node_id: int) -> None:
        """Bring a node up again: it listens where it did, and leads the partitions without a leader.

        The loop opens the listener in its next rounds; `settled` waits for that. ClusterError if there is no such
        node. One that is up stays so.
        """
        node = self.node(node_id)
        if node.is_up:
            return
        node.is_up = True
        self.unregistered.discard(node_id)
        if self.controller is None:
            self._choose_controller(node)
        for partition in self._partitions():
            if node_id in partition.replicas:
                self._regain(partition)
                partition.topic.changed()
        self.note()
        self._tell()
        if node.listener is not None:
            node.listener.open()
        _logger.info("node %d is up", node_id)

    def _choose_controller(self, node: Node | None) -> None:
        self.controller = node
        if node is not None:
            self.controller_epoch += 1

    async def settled(self) -> None:
        """The listeners of nodes that were stopped are closed, and those of nodes that were started listen."""
        for node in self.nodes.values():
            if node.listener is not None:
                await node.listener.settled()

    def _lose(self, partition: Partition, node: Node) -> None:
        """A replica's node has gone."""
        isr = tuple(each for each in partition.isr if each != node.id)
        if isr:
            partition.set_isr(isr)  # the last one stays: only it may lead again
        if partition.leader is node:
            self._lead(partition, self._next_leader(partition))

    def _next_leader(self, partition: Partition, *, unclean: bool = False) -> Node | None:
        candidates = [self.nodes[each] for each in partition.replicas if self.nodes[each].is_up]
        chosen = next((node for node in candidates if node.id in partition.isr), None)
        unclean = unclean or partition.topic.config.boolean("unclean.leader.election.enable")
        if chosen is None and candidates and unclean:
            chosen = candidates[0]
            partition.set_isr((chosen.id,))
        return chosen

    def _regain(self, partition: Partition) -> None:
        """A replica's node is back."""
        if partition.leader is None:
            self._lead(partition, self._next_leader(partition))
        else:
            self._catch_up(partition)

    def _catch_up(self, partition: Partition) -> None:
        """Where there is a leader, all replicas that are up are in sync: they have its log."""
        partition.set_isr(tuple(each for each in partition.replicas if self.nodes[each].is_up))

    def _lead(self, partition: Partition, leader: Node | None) -> None:
        if leader is partition.leader:
            return
        partition.leader = leader
        partition.leader_epoch += 1
        if leader is not None:
            self._catch_up(partition)
        partition.topic.changed()
        self._moved.append(partition)
        self._is_noted = False

    def _partition(self, topic_name: str, index: int) -> Partition:
        topic = None if self.topics is None else self.topics.get(topic_name)
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            raise ClusterError(f"there is no partition {topic_name}-{index}")
        return partition

    def _partitions(self) -> Iterator[Partition]:
        topics: Sequence[Topic] = () if self.topics is None else tuple(self.topics)
        return (partition for topic in topics for partition in topic.partitions)

    def note(self) -> bool:
        """Write down who has and leads what, if that has changed. False when the disk refuses, which is logged."""
        if self.topics is None or self._is_noted:
            return True
        try:
            self.topics.save()
            self._is_noted = True
        except OSError as error:  # it counts for this run all the same
            _logger.error("The leaders of partitions cannot be written down: %s", error)  # noqa: TRY400 - the disk's fault, not ours
        return self._is_noted

    def _tell(self) -> None:
        """Call the listeners of partitions that have moved."""
        moved, self._moved = self._moved, []
        for partition in moved:
            self.on_leader_moved(partition)


def _nothing(_: Partition) -> None:
    pass
