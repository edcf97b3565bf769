"""A partition: its log, its replicas, their placement, and its leader (Kafka's `kafka.cluster.Partition`).

All replicas share one copy of the log. A replica on a running node is therefore in sync, and a record that the leader
has accepted is present on its followers, too.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from minibroker.cluster.directories import is_unfinished
from minibroker.cluster.node import NO_NODE
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataResponsePartition
from minibroker_storage.config import LogConfig
from minibroker_storage.layout import (
    PARTITION_METADATA,
    create_partition_directory,
    delete_directory_name,
    purge,
    rename_if_exists,
)

if TYPE_CHECKING:
    from minibroker.cluster.cluster import Cluster
    from minibroker.cluster.node import Node
    from minibroker.cluster.topics import Topic
    from minibroker_storage.data_directory.names import TopicPartition
    from minibroker_storage.log import Log


Replicas = tuple[int, ...]
"""The node ids of a partition's replicas, the preferred leader first."""
Racks = Mapping[int, str]
"""The racks by node id. Nodes without a rack are missing. As in KRaft, all of them together count as one rack."""
PartitionRacks = tuple[tuple[str, ...], ...]
"""The sorted racks of the replicas of each partition of a topic. Empty if no broker has a rack."""

Item = TypeVar("Item")
_NO_RACKS: Final[Racks] = {}


def assign_replicas(
    nodes: Sequence[int],
    partitions: int,
    factor: int,
    *,
    start: int = 0,
    first_partition: int = 0,
    racks: Racks = _NO_RACKS,
) -> list[Replicas]:
    """Place new partitions as Kafka's `AdminUtils` does.

    The first replicas rotate over `nodes`, starting at position `start`. The other replicas follow at a distance
    that grows by one with each round. No rack gets a second replica before every rack has one.

    Args:
        nodes: The node ids.
        partitions: The number of new partitions.
        factor: The replication factor, at most the number of nodes.
        start: The position of the first node.
        first_partition: The number of the first new partition.
        racks: The racks of the nodes.
    """
    if racks:
        nodes = _interleave(_group_by_rack(nodes, racks).values())
    node_count = len(nodes)
    rack_count = len({racks.get(node) for node in nodes})
    shift = start + (first_partition - 1) // node_count if first_partition > 0 else start
    assigned: list[Replicas] = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % node_count == 0:
            shift += 1
        first = (partition + start) % node_count
        replicas = [nodes[first]]
        used = {racks.get(nodes[first])}
        steps = count(shift * rack_count)
        while len(replicas) < factor:
            node = nodes[(first + 1 + next(steps) % (node_count - 1)) % node_count]
            rack = racks.get(node)
            if node not in replicas and (rack not in used or len(used) == rack_count):
                replicas.append(node)
                used.add(rack)
        assigned.append(tuple(replicas))
    return assigned


def stripe_replicas(nodes: Sequence[int], partitions: int, factor: int, *, start: int, racks: Racks) -> list[Replicas]:
    """Place new partitions as KRaft's `StripedReplicaPlacer` does. Leaders rotate over racks, not over nodes."""
    by_rack = _group_by_rack(nodes, racks)
    names = list(by_rack)
    turns = Counter[str]()
    assigned: list[Replicas] = []
    for partition in range(start, start + partitions):
        order = _rotate(names, partition)
        replicas = _interleave([_rotate(by_rack[name], turns[name]) for name in order])[:factor]
        turns.update({racks.get(node, "") for node in replicas})
        assigned.append(tuple(replicas))
    return assigned


def racks_of(partitions: Iterable[Replicas], racks: Racks) -> PartitionRacks:
    """Return the racks of each partition's replicas."""
    return tuple(tuple(sorted(racks[node_id] for node_id in replicas if node_id in racks)) for replicas in partitions)


def _group_by_rack(nodes: Iterable[int], racks: Racks) -> dict[str, list[int]]:
    """Return the nodes grouped by rack, with racks and nodes in ascending order."""
    names = sorted({racks.get(node, "") for node in nodes})
    return {name: sorted(node for node in nodes if racks.get(node, "") == name) for name in names}


def _rotate(items: Sequence[Item], by: int) -> list[Item]:
    by %= len(items)
    return [*items[by:], *items[:by]]


def _interleave(groups: Iterable[Sequence[int]]) -> list[int]:
    """Return the first node of each group, then the second node of each, and so on."""
    groups = tuple(groups)
    return [group[turn] for turn in range(max(map(len, groups))) for group in groups if turn < len(group)]


class LogManager(Protocol):
    """The part of the log manager that topics use (`minibroker.cluster.logs.log_manager.LogManager`)."""

    def open_log(self, partition: Partition) -> Log:
        """Open a partition's log.

        Raises:
            StorageError: The log is damaged.
            OSError: A file cannot be read or written.
        """
        ...

    def reconfigure(self, log: Log, config: LogConfig) -> None:
        """Apply a new configuration to a log."""

    def forget_partition(self, partition: Partition) -> None:
        """Cancel the cleaning of a partition that is about to be deleted."""

    def forget(self, names: Iterable[str]) -> None:
        """Drop the checkpoints of deleted topics whose names new topics reuse.

        Raises:
            OSError: A file cannot be written.
        """


class Partition:
    """A partition. Its log is opened on first use.

    Attributes:
        replicas: The node ids of the replicas, the preferred leader first.
        isr: The node ids of the in-sync replicas.
        leader: The leader, or None while the partition is offline.
        opened_log: The log, or None before its first use.
        leader_epoch: The current leader epoch, which grows with every change of leader.
        is_under_min_isr: Whether too few replicas are in sync for producers with acks=all.
    """

    __slots__ = (
        "_log_manager",
        "directory",
        "index",
        "is_under_min_isr",
        "isr",
        "leader",
        "leader_epoch",
        "opened_log",
        "replicas",
        "topic",
    )

    def __init__(self, topic: Topic, index: int, directory: str, log_manager: LogManager) -> None:
        self.topic = topic
        self.index = index
        self.directory = directory
        self._log_manager = log_manager
        self.opened_log: Log | None = None
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.leader: Node | None = None
        self.leader_epoch = 0
        self.is_under_min_isr = False

    @property
    def key(self) -> TopicPartition:
        """The name of the partition in checkpoints."""
        return self.topic.name, self.index

    @property
    def log(self) -> Log:
        """The partition's log, opened and recovered on first use.

        Raises:
            StorageError: The log is damaged.
            OSError: A file cannot be read or written.
        """
        if self.opened_log is None:
            self.opened_log = self._log_manager.open_log(self)
        return self.opened_log

    @property
    def has_files(self) -> bool:
        """Whether the log has files. A partition gets files with its first record.

        After a clean stop, an empty partition has only a directory and a topic id. Anything else in place of the
        directory, such as a link, counts as files, because it is not an empty log.

        Raises:
            OSError: The directory cannot be read.
        """
        try:
            return os.listdir(self.directory) != [PARTITION_METADATA] or os.path.islink(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return os.path.lexists(self.directory)

    def make_directory(self) -> None:
        """Create the directory with the files of an empty log.

        A directory that never held a record is replaced. It was left by a stop or a failed attempt.

        Raises:
            FileExistsError: Something else is in place of the directory.
            OSError: The directory cannot be created, and does not exist afterwards.
        """
        try:
            create_partition_directory(self.directory, self.topic.id)
        except FileExistsError:
            if not is_unfinished(self.directory):
                raise
            purge(self.directory)
            create_partition_directory(self.directory, self.topic.id)
        except OSError:
            with contextlib.suppress(OSError):
                purge(self.directory)
            raise

    def abandon(self, directory: str) -> None:
        """Close the log. The partition's directory was moved to `directory`, and its topic no longer exists."""
        self._log_manager.forget_partition(self)
        if self.opened_log is not None:
            self.opened_log.abandon(directory)

    def reconfigure(self) -> None:
        """Apply a changed topic configuration."""
        if self.opened_log is not None:
            self._log_manager.reconfigure(self.opened_log, self.topic.log_config)
            self.opened_log.call_listeners()
        self._update_min_isr()

    def delete(self, target: str | None = None) -> str | None:
        """Delete the partition, and return the new path of its directory for `purge`, or None if it had no directory.

        The directory is renamed to `target`, or by default to the name of a deleted directory.

        Raises:
            OSError: The directory cannot be renamed.
        """
        self._log_manager.forget_partition(self)
        if self.opened_log is not None:
            return self.opened_log.delete(target)
        renamed = target or delete_directory_name(self.directory)
        return renamed if rename_if_exists(self.directory, renamed) else None

    def set_isr(self, isr: tuple[int, ...]) -> None:
        """Set the in-sync replicas."""
        self.isr = isr
        self._update_min_isr()

    def describe(self, cluster: Cluster) -> MetadataResponsePartition:
        """Return the partition for a Metadata response."""
        leader = self.leader
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader is None else ErrorCode.NONE,
            partition_index=self.index,
            leader_id=NO_NODE if leader is None else leader.id,
            leader_epoch=self.leader_epoch,
            replica_nodes=list(self.replicas),
            isr_nodes=list(self.isr),
            offline_replicas=[node_id for node_id in self.replicas if not cluster.nodes[node_id].is_up],
        )

    def _update_min_isr(self) -> None:
        # As in Kafka, `min.insync.replicas` is limited to the number of replicas (`Partition.effectiveMinIsr`).
        self.is_under_min_isr = len(self.isr) < min(self.topic.min_insync_replicas, len(self.replicas))

    def access_error(self, node: Node, epoch: int = -1, *, leader_only: bool = True) -> ErrorCode:
        """Return the error for a client of `node` with this leader epoch (`Partition.getLocalLog`, KIP-320).

        It is NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NONE. An epoch of -1 is not checked.
        Without `leader_only` any replica may serve the client.
        """
        if node.id not in self.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch not in (self.leader_epoch, -1):
            return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.leader_epoch else ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_only and self.leader is not node else ErrorCode.NONE

    @property
    def is_end_uncertain(self) -> bool:
        """Whether the high watermark has not reached the start of the leader's epoch (KIP-207).

        The previous leader may have shown more records.
        """
        log = self.log
        if log.high_watermark == log.log_end_offset:
            return False
        has_records = log.epochs.latest_epoch == self.leader_epoch
        return not has_records or log.high_watermark < log.epochs.entries[-1].start_offset

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest leader epoch up to `epoch`, and that epoch's end offset. Both are -1 if unknown."""
        log = self.log
        epochs = copy(log.epochs)
        # An epoch begins with the election of its leader, but the log's epoch file contains it only after the epoch's
        # first record.
        epochs.assign(self.leader_epoch, log.log_end_offset)
        entry = epochs.end_offset_for(epoch, log.log_end_offset)
        return entry.epoch, entry.start_offset
