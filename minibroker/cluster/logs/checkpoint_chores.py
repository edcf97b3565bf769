"""The chore that writes a broker's checkpoint files (Kafka's `LogManager.checkpointLogRecoveryOffsets`).

For each log the files contain the offset up to which the log is on disk, its start offset, and the progress of
compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker_storage.data_directory.names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from minibroker_storage.data_directory.offset_checkpoints import OffsetCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from minibroker.cluster.durability import Background
    from minibroker.cluster.partition import Partition
    from minibroker_storage.data_directory.names import TopicPartition
    from minibroker_storage.log import Log


class Checkpoints:
    """The checkpoints of one data directory.

    Args:
        directory: The data directory.
        opened: Iterates over the open logs.
        partition_of: Returns the partition of a key, or None if it was deleted.
        background: Runs a function on a thread, then another one on the event loop.
    """

    def __init__(
        self,
        directory: str,
        opened: Callable[[], Iterator[tuple[Partition, Log]]],
        partition_of: Callable[[TopicPartition], Partition | None],
        background: Background,
    ) -> None:
        self._opened = opened
        self._partition_of = partition_of
        self._background = background
        names = RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS
        self.all = [OffsetCheckpoint(directory, name) for name in names]
        self.recovery_points, self.start_offsets, self.high_watermarks, self.cleaner_offsets = self.all

    def update(self) -> None:
        """Update the offsets of the open logs. Those of closed logs have not changed."""
        updated = [
            {key: offset for key, offset in checkpoint.offsets.items() if self._partition_of(key)}
            for checkpoint in self.all
        ]
        recovery_points, start_offsets, high_watermarks, _ = updated
        for partition, log in self._opened():
            if not log.has_directory:
                continue
            key = partition.key
            recovery_points[key] = log.recovery_point
            high_watermarks[key] = log.high_watermark
            if log.log_start_offset > log.segments[0].base_offset:
                start_offsets[key] = log.log_start_offset
            else:
                start_offsets.pop(key, None)
        for checkpoint, offsets in zip(self.all, updated, strict=True):
            checkpoint.offsets = offsets

    def forget(self, names: Iterable[str]) -> None:
        """Drop the offsets of deleted topics whose names new topics reuse.

        Raises:
            OSError: A file cannot be written.
        """
        topics = frozenset(names)
        for checkpoint in self.all:
            checkpoint.forget(topics)

    def save(self, *, sync: bool) -> None:
        """Update the offsets and write all files. `sync` forces them to disk.

        Raises:
            OSError: A file cannot be written.
        """
        self.update()
        for checkpoint in self.all:
            checkpoint.save(sync=sync)

    def save_aside(self, *checkpoints: OffsetCheckpoint) -> None:
        """Write these checkpoints on a thread. Errors are logged."""
        for checkpoint in checkpoints:
            if checkpoint.is_behind:
                self._background(checkpoint.save_logged)
