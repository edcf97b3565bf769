"""The cluster: its nodes, its controller and the leaders of partitions (Kafka's `ReplicationControlManager`).

All nodes share the topics, the groups, the transactions and one copy of each log. Clients see them differ as the nodes
of a Kafka cluster do: in their addresses, and in the partitions and coordinators for which they are responsible.

Replicas follow Kafka's `ReplicationControlManager` and `PartitionChangeBuilder`. A node that stops leaves every ISR in
which it is not the last member, and the next in-sync replica becomes the leader in a new epoch. If no other replica is
in sync, the partition is offline. A node that starts again leads the partitions without a leader, and is in sync
immediately.

All methods must be called on the event loop's thread.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from minibroker.cluster.node import Node, NodesFile
from minibroker.cluster.partition import Partition, Replicas, assign_replicas, stripe_replicas

if TYPE_CHECKING:
    from minibroker.cluster.topics import Topic, Topics
    from minibroker.config import BrokerConfig

_logger = logging.getLogger(__name__)


class ClusterError(ValueError):
    """A change to the cluster is impossible. The message gives the reason."""


class Cluster:
    """The nodes and the leaders of the partitions.

    Attributes:
        cluster_id: The cluster id from the data directory.
        nodes: The nodes by id, in the order of their ids.
        first: The first node of this process.
        racks: The racks by node id, for nodes that have one.
        is_single: Whether the cluster has only one node. Stopping nodes does not change this.
        controller: The controller in responses to clients, or None while all nodes are down.
        controller_epoch: The number of controllers chosen so far.
        nodes_file: The nodes of other processes; empty until the data directory's file is read.
        topics: The topics whose partitions the nodes host, set once the topics have been loaded.
        first_epoch: The leader epoch of new partitions; see `raise_first_epoch`.
        on_leader_moved: Called with each partition that has a new leader or has lost its leader.
        unregistered: The ids of nodes removed by UnregisterBroker that have not been started again.
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
        default_rack = None if config is None else config.optional_text("broker.rack")
        own_racks = racks or [""] * count
        self.racks = {first_id + index: rack for index, own in enumerate(own_racks) if (rack := own or default_rack)}
        self._is_kraft = is_kraft
        self._session_slots = 0 if config is None else config.integer("max.incremental.fetch.session.cache.slots")
        self.nodes = {
            node_id: Node(node_id, self.racks.get(node_id), self._session_slots)
            for node_id in range(first_id, first_id + count)
        }
        self.first = self.nodes[first_id]
        self.controller: Node | None = self.first
        self.controller_epoch = 1
        self.nodes_file = NodesFile(None)
        self.topics: Topics | None = None
        self.on_leader_moved: Callable[[Partition], None] = lambda _: None
        self.is_single = count == 1
        self.unregistered: set[int] = set()
        self.first_epoch = 0
        self._start = 0
        self._moved: list[Partition] = []
        self._is_saved = True

    @property
    def up(self) -> list[Node]:
        """The running nodes."""
        return [node for node in self.nodes.values() if node.is_up]

    def add_node(self, node_id: int, rack: str | None) -> Node:
        """Add a node of another process. It is down until it is started."""
        node = Node(node_id, rack, self._session_slots)
        node.is_up = False
        if rack is not None:
            self.racks[node_id] = rack
        self.nodes[node_id] = node
        for known_id in sorted(self.nodes):  # Replicas are assigned in the order of the ids.
            self.nodes[known_id] = self.nodes.pop(known_id)
        self.is_single = False
        return node

    def node(self, node_id: int) -> Node:
        """Return the node with this id.

        Raises:
            ClusterError: There is no such node.
        """
        node = self.nodes.get(node_id)
        if node is None:
            raise ClusterError(f"there is no broker {node_id}; ids of brokers: {', '.join(map(str, self.nodes))}")
        return node

    def assign_replicas(self, partitions: int, factor: int) -> list[Replicas]:
        """Assign replicas to the partitions of a new topic. Consecutive topics start at different nodes.

        Only running nodes are used if there are enough of them.

        Args:
            partitions: The number of partitions.
            factor: The replication factor, at most the number of nodes.
        """
        up = [node.id for node in self.up]
        # Kafka starts at a random node. Here the nodes take turns, so that tests get the same leaders every time.
        start, self._start = self._start, self._start + 1
        nodes = up if factor <= len(up) else tuple(self.nodes)
        # Without racks, KRaft's placement matches the older placement in the first round, and is random in later
        # rounds. The older placement therefore serves both.
        if self.racks and self._is_kraft:
            return stripe_replicas(nodes, partitions, factor, start=start, racks=self.racks)
        return assign_replicas(nodes, partitions, factor, start=start, racks=self.racks)

    def assign_more_replicas(self, topic: "Topic", partitions: int) -> list[Replicas]:
        """Assign replicas to additional partitions of a topic, as if the topic had been created with them."""
        nodes = tuple(self.nodes)
        first_replicas = topic.partitions[0].replicas
        factor, count = min(len(first_replicas), len(nodes)), len(topic.partitions)
        if self.racks and self._is_kraft:
            return stripe_replicas(nodes, partitions, factor, start=count, racks=self.racks)
        start = nodes.index(first_replicas[0])
        return assign_replicas(nodes, partitions, factor, start=start, first_partition=count, racks=self.racks)

    def place_partition(self, partition: Partition, replicas: Replicas | None = None) -> None:
        """Set the replicas of a new partition, and elect a leader if any of the replicas is running.

        If `replicas` is None, each partition gets a single node, in rotation.
        """
        if replicas is None:
            ids = tuple(self.nodes)
            replicas = (ids[partition.index % len(ids)],)
        partition.replicas = replicas
        partition.leader_epoch = self.first_epoch
        in_sync = tuple(node_id for node_id in replicas if self.nodes[node_id].is_up)
        # An ISR is never empty. If all replicas are down, the first one counts as the last in-sync replica.
        partition.set_isr(in_sync or replicas[:1])
        partition.leader = self.nodes[in_sync[0]] if in_sync else None

    def restore(self, partition: Partition, replicas: Iterable[int] | None, leader: int | None, epoch: int) -> None:
        """Restore a partition's replicas, leader and epoch from an earlier run. Nodes that no longer exist are ignored.

        All nodes are running when the broker starts.
        """
        existing = tuple(node_id for node_id in replicas or () if node_id in self.nodes)
        self.place_partition(partition, existing or None)
        if leader in partition.replicas:
            partition.leader = self.nodes[leader]
        assert partition.leader is not None
        # A partition without saved replicas had a single replica, on the first node.
        previous_leader = self.first.id if replicas is None else leader
        partition.leader_epoch = max(self.first_epoch, epoch if partition.leader.id == previous_leader else epoch + 1)

    def raise_first_epoch(self) -> None:
        """Raise the first leader epoch, because all topics are about to be removed and their names may be reused.

        New partitions start with a leader epoch above any earlier one. Clients that stay connected would ignore
        metadata with a lower epoch as outdated. A higher epoch makes them check whether the log still contains the
        records that they have read (KIP-320).
        """
        self.first_epoch = max([self.first_epoch, *(partition.leader_epoch for partition in self._partitions())]) + 1

    def move_leader(self, topic_name: str, index: int, to: int) -> None:
        """Make the node `to` the leader of a partition, in a new epoch.

        A node that is not a replica takes the previous leader's place among the replicas, as in a reassignment. If
        the node already leads the partition, nothing changes.

        Raises:
            ClusterError: The partition or the node does not exist, or the node is down.
        """
        node = self.node(to)
        partition = self._partition(topic_name, index)
        if not node.is_up:
            raise ClusterError(f"{topic_name}-{index} cannot move to node {to}, which is down")
        if partition.leader is node:
            return
        # A test may choose a node that is not a replica yet. The node then replaces a replica, so that the test needs
        # no reassignment first.
        if to not in partition.replicas:
            replaced = partition.replicas[0] if partition.leader is None else partition.leader.id
            partition.replicas = tuple(to if node_id == replaced else node_id for node_id in partition.replicas)
        self._set_leader(partition, node)
        self.save_leaders()
        self._notify_moved()

    def fail_over(self, topic_name: str, index: int, to: int, cut: int, now_ms: int) -> None:
        """Make a follower the leader that has only the records below `cut`, as after a crash of the leader.

        The other records are removed. Consumers have not seen them, and no producer with acks=all was told that they
        are safe, because they are above the high watermark.

        Raises:
            ClusterError: `to` is not an in-sync follower, or `cut` is below the high watermark.
            OSError: The log cannot be truncated.
        """
        partition, node = self._partition(topic_name, index), self.node(to)
        leader, log = partition.leader, partition.log
        if to not in partition.isr or node is leader or not node.is_up:
            raise ClusterError(f"{topic_name}-{index} cannot fail over to node {to}, which is no in-sync follower")
        if cut < log.high_watermark:
            raise ClusterError(f"{topic_name}-{index} keeps its records below {log.high_watermark}")
        log.truncate_to(cut, now_ms)
        self.move_leader(topic_name, index, to)
        if leader is not None:
            leader.fetch_sessions.clear()

    def elect_leader(self, partition: Partition, *, unclean: bool) -> bool:
        """Elect the preferred replica if it is in sync, and return whether the election succeeded.

        Call `save_leaders` after the last partition.

        Args:
            partition: The partition.
            unclean: If there is no leader, elect any running replica, preferring those in sync. An existing leader
                is kept.
        """
        preferred = self.nodes[partition.replicas[0]]
        # Electing a preferred replica that is not in sync would lose records (`PREFERRED_LEADER_NOT_AVAILABLE`).
        leader = preferred if preferred.is_up and preferred.id in partition.isr else None
        if unclean:
            leader = partition.leader or self._next_leader(partition, unclean=True)
        if leader is None:
            return False
        self._set_leader(partition, leader)
        self._notify_moved()
        return True

    def add_missing_replicas(self) -> None:
        """Give topics the replicas that were requested when there were fewer nodes.

        Call `save_leaders` afterwards.
        """
        for topic in tuple(self.topics or ()):
            factor = min(topic.wanted_factor, len(self.up))
            if factor > len(topic.partitions[0].replicas):
                placements = self.assign_replicas(len(topic.partitions), factor)
                for partition, replicas in zip(topic.partitions, placements, strict=True):
                    self.reassign(partition, replicas)

    def elect_preferred_leaders(self) -> None:
        """Elect the preferred replica of every partition where it is in sync (`auto.leader.rebalance.enable`)."""
        for partition in self._partitions():
            self.elect_leader(partition, unclean=False)
        self.save_leaders()

    def elect_missing_leaders(self, partitions: Iterable[Partition]) -> None:
        """Elect leaders for the partitions without one, where the current configuration allows it."""
        for partition in partitions:
            if partition.leader is None:
                self._set_leader(partition, self._next_leader(partition))
        self.save_leaders()
        self._notify_moved()

    def reassign(self, partition: Partition, replicas: Replicas) -> None:
        """Change the replicas of a partition. At least one of the new replicas must be running.

        All running replicas are in sync immediately. The leader stays if it is still a replica. As in Kafka,
        removing a replica starts a new epoch.

        Call `save_leaders` after the last partition.
        """
        if replicas == partition.replicas:
            return
        removed = set(partition.replicas).difference(replicas)
        partition.replicas = replicas
        self._fill_isr(partition)
        partition.topic.mark_changed()
        if partition.leader is None or partition.leader.id not in partition.isr:
            self._set_leader(partition, self.nodes[partition.isr[0]])
        elif removed:
            partition.leader_epoch += 1
            self._moved.append(partition)
        self._is_saved = False
        self._notify_moved()

    def stop_node(self, node_id: int) -> None:
        """Stop a node: close its listener and connections, and elect other leaders for its partitions.

        The event loop closes the listener in later turns; `settled` waits for that. Stopping a stopped node does
        nothing.

        Raises:
            ClusterError: There is no such node.
        """
        node = self.node(node_id)
        if not node.is_up:
            return
        node.is_up = False
        if node.listener is not None:
            node.listener.close()
        node.fetch_sessions.clear()
        if self.controller is node:
            self._choose_controller(next(iter(self.up), None))
        for partition in self._partitions():
            if node_id in partition.replicas:
                self._handle_replica_down(partition, node)
                partition.topic.mark_changed()
        self.save_leaders()
        self._notify_moved()
        _logger.info("node %d is down", node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again: open its listener, and make it the leader of the partitions without one.

        The event loop opens the listener in later turns; `settled` waits for that. Starting a running node does
        nothing.

        Raises:
            ClusterError: There is no such node.
        """
        node = self.node(node_id)
        if node.is_up:
            return
        node.is_up = True
        node.starts += 1
        self.unregistered.discard(node_id)
        if self.controller is None:
            self._choose_controller(node)
        for partition in self._partitions():
            if node_id in partition.replicas:
                if partition.leader is None:
                    self._set_leader(partition, self._next_leader(partition))
                else:
                    self._fill_isr(partition)
                partition.topic.mark_changed()
        self.save_leaders()
        self._notify_moved()
        if node.listener is not None:
            node.listener.open()
        _logger.info("node %d is up", node_id)

    def _choose_controller(self, node: Node | None) -> None:
        self.controller = node
        if node is not None:
            self.controller_epoch += 1

    async def wait_until_settled(self) -> None:
        """Wait until the listeners of stopped nodes are closed and the listeners of started nodes are open."""
        for node in self.nodes.values():
            if node.listener is not None:
                await node.listener.wait_until_settled()

    def _handle_replica_down(self, partition: Partition, node: Node) -> None:
        """Remove a stopped node from a partition's ISR, and elect another leader if the node was the leader."""
        isr = tuple(node_id for node_id in partition.isr if node_id != node.id)
        if isr:
            # The last in-sync replica stays in the ISR, because only that replica may become leader again.
            partition.set_isr(isr)
        if partition.leader is node:
            self._set_leader(partition, self._next_leader(partition))

    def _next_leader(self, partition: Partition, *, unclean: bool = False) -> Node | None:
        running = [self.nodes[node_id] for node_id in partition.replicas if self.nodes[node_id].is_up]
        candidates = [node for node in running if node.id in partition.isr]
        if not candidates and (unclean or partition.topic.config.boolean("unclean.leader.election.enable")):
            candidates = running
        return candidates[0] if candidates else None

    def shrink_isr(self, partition: Partition) -> None:
        """Leave only the leader in the ISR of a partition, as if its followers had stopped fetching."""
        if partition.leader is not None:
            partition.set_isr((partition.leader.id,))
            partition.topic.mark_changed()

    def restore_isr(self, partition: Partition) -> None:
        """Add all running replicas of a partition to its ISR, because they have caught up."""
        if partition.leader is not None:
            partition.set_isr(self._running_replicas(partition))
            partition.topic.mark_changed()

    def _running_replicas(self, partition: Partition) -> Replicas:
        return tuple(node_id for node_id in partition.replicas if self.nodes[node_id].is_up)

    def _fill_isr(self, partition: Partition) -> None:
        """Add all running replicas of a partition with a leader to its ISR, since they share the leader's log.

        While followers lag, only the leader and the replicas in sync are left in it.
        """
        running = self._running_replicas(partition)
        if partition.opened_log is not None and partition.opened_log.is_held:
            leader = partition.leader and partition.leader.id
            running = tuple(node_id for node_id in running if node_id == leader or node_id in partition.isr) or running
        partition.set_isr(running)

    def _set_leader(self, partition: Partition, leader: Node | None) -> None:
        if leader is partition.leader:
            return
        partition.leader = leader
        partition.leader_epoch += 1
        if leader is not None:
            self._fill_isr(partition)
        partition.topic.mark_changed()
        self._moved.append(partition)
        self._is_saved = False

    def _partition(self, topic_name: str, index: int) -> Partition:
        partition = None if self.topics is None else self.topics.find_partition(topic_name, index)
        if partition is None:
            raise ClusterError(f"there is no partition {topic_name}-{index}")
        return partition

    def _partitions(self) -> Iterator[Partition]:
        topics: Sequence[Topic] = () if self.topics is None else tuple(self.topics)
        return (partition for topic in topics for partition in topic.partitions)

    def save_leaders(self) -> bool:
        """Save the replicas and leaders if they changed. If that fails, log the error and return False."""
        if self.topics is None or self._is_saved:
            return True
        try:
            self.topics.save()
            self._is_saved = True
        except OSError as error:  # The error is only logged, because the change still applies until the broker stops.
            _logger.error("The leaders of partitions cannot be written down: %s", error)  # noqa: TRY400 - no traceback
        return self._is_saved

    def _notify_moved(self) -> None:
        """Call `on_leader_moved` for each partition whose leader changed."""
        moved, self._moved = self._moved, []
        for partition in moved:
            self.on_leader_moved(partition)
