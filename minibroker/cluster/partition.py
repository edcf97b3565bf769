"""Partition: its log, its replicas and its leader (Kafka's `kafka.cluster.Partition`).

There is one copy of each log, which all replicas share. So a replica that is up is in sync, and records that a leader
has taken are those of its followers.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Protocol

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
    rename_if_there,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from minibroker.cluster.cluster import Cluster
    from minibroker.cluster.node import Node
    from minibroker.cluster.topics import Topic
    from minibroker_storage.data_directory.names import TopicPartition
    from minibroker_storage.log import Log


class LogManager(Protocol):
    """The log manager as topics see it (`minibroker.cluster.logs.log_manager.LogManager`)."""

    def open_log(self, partition: Partition) -> Log:
        """Open a partition's log. StorageError or OSError when that fails."""
        ...

    def reconfigure(self, log: Log, config: LogConfig) -> None:
        """Let a log act on a new configuration."""
        ...

    def forget_partition(self, partition: Partition) -> None:
        """The partition is going to be deleted."""
        ...

    def forget(self, names: Iterable[str]) -> None:
        """New topics take these names: what is known of older ones is not theirs. OSError."""
        ...


class Partition:
    """One partition; its log is opened at its first use.

    Attributes:
        replicas: the ids of the nodes that keep it, the preferred leader first.
        isr: those of them that are in sync.
        leader: the node that serves it; None while there is none that may.
        opened_log: its log, once someone has used it.
        leader_epoch: counts the leaders that it has had.
        is_under_min_isr: too few replicas are in sync for producers that want all of them to have their records.
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
        """As checkpoints name it."""
        return self.topic.name, self.index

    @property
    def log(self) -> Log:
        """The partition's log, opened and recovered on first use. StorageError or OSError when that fails."""
        if self.opened_log is None:
            self.opened_log = self._log_manager.open_log(self)
        return self.opened_log

    @property
    def has_files(self) -> bool:
        """Whether the files of a log are there: a partition gets them with its first record. OSError.

        A clean stop alone leaves no more than its directory and topic id. Something else in the place of the directory,
        such as a link, counts as files: it is no empty log.
        """
        try:
            return os.listdir(self.directory) != [PARTITION_METADATA] or os.path.islink(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return os.path.lexists(self.directory)

    def make_directory(self) -> None:
        """Make the directory with the files of an empty log. OSError, and it is not there.

        One that never held a record is what a stop or a failed attempt has left. FileExistsError for anything else.
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
        """Close the log: the partition's directory was moved to `directory`, and its topic is gone."""
        self._log_manager.forget_partition(self)
        if self.opened_log is not None:
            self.opened_log.abandon(directory)

    def reconfigure(self) -> None:
        """The topic has another configuration now."""
        if self.opened_log is not None:
            self._log_manager.reconfigure(self.opened_log, self.topic.log_config)
            self.opened_log.call_listeners()
        self._count_isr()

    def delete(self, target: str | None = None) -> str | None:
        """Give the partition up; returns where its directory has gone, for `purge`, if it had one. OSError.

        The directory is renamed to `target`, or to the name of a deleted one.
        """
        self._log_manager.forget_partition(self)
        if self.opened_log is not None:
            return self.opened_log.delete(target)
        renamed = target or delete_directory_name(self.directory)
        return renamed if rename_if_there(self.directory, renamed) else None

    # Who serves it

    def set_isr(self, isr: tuple[int, ...]) -> None:
        """Other replicas are in sync now."""
        self.isr = isr
        self._count_isr()

    def describe(self, cluster: Cluster) -> MetadataResponsePartition:
        """The partition in a response to Metadata."""
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

    def _count_isr(self) -> None:
        # Kafka asks for no more replicas than there are (`Partition.effectiveMinIsr`).
        self.is_under_min_isr = len(self.isr) < min(self.topic.min_insync_replicas, len(self.replicas))

    def epoch_error(self, epoch: int) -> ErrorCode:
        """The error for a client's leader epoch (KIP-320); NONE also if the client names none (-1)."""
        if epoch in (self.leader_epoch, -1):
            return ErrorCode.NONE
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.leader_epoch else ErrorCode.FENCED_LEADER_EPOCH

    def access_error(self, node: Node, epoch: int = -1, *, leader_only: bool = True) -> ErrorCode:
        """The error for a client of `node` with this leader epoch, or NONE (`Partition.getLocalLog`).

        NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH. Without `leader_only` any replica may serve.
        """
        if node.id not in self.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        mistaken = self.epoch_error(epoch)
        if mistaken:
            return mistaken
        if leader_only and self.leader is not node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest leader epoch that is not above `epoch`, and its end offset; -1 for both if unknown."""
        log = self.log
        epochs = log.epochs.copy()
        # A leader's epoch begins when it is elected; in the log's file it stands once there is a record of it.
        epochs.assign(self.leader_epoch, log.log_end_offset)
        found = epochs.end_offset_for(epoch, log.log_end_offset)
        return found.epoch, found.start_offset
