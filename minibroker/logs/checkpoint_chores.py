"""The chore that writes a broker's checkpoint files (Kafka's `LogManager.checkpointLogRecoveryOffsets`).

Up to where each log is on disk, where it begins, and what compaction has done.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from minibroker_protocol.steps import drain
from minibroker_storage.data_directory.names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from minibroker_storage.data_directory.offset_checkpoints import OffsetCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from minibroker.cluster.partition import Partition
    from minibroker.support.background import Background
    from minibroker_protocol.steps import Steps
    from minibroker_storage.data_directory.names import TopicPartition
    from minibroker_storage.data_directory.offset_checkpoints import Offsets
    from minibroker_storage.log import Log

_OF_A_STEP: Final = 500
_ATTEMPTS: Final = 3


class Checkpoints:
    """The checkpoints of one data directory.

    Args:
        opened: goes through the open logs.
        exists: whether there is such a partition.
        background: runs a function aside from the event loop, then another one on it.
    """

    def __init__(
        self,
        directory: str,
        opened: Callable[[], Iterator[tuple[Partition, Log]]],
        exists: Callable[[TopicPartition], bool],
        background: Background,
    ) -> None:
        self._opened = opened
        self._exists = exists
        self._background = background
        self.recovery_points = OffsetCheckpoint(directory, RECOVERY_POINTS)
        self.start_offsets = OffsetCheckpoint(directory, LOG_START_OFFSETS)
        self.high_watermarks = OffsetCheckpoint(directory, HIGH_WATERMARKS)
        self.cleaner_offsets = OffsetCheckpoint(directory, CLEANER_OFFSETS)
        self._forgotten = 0  # how often names were forgotten

    @property
    def all(self) -> tuple[OffsetCheckpoint, ...]:
        """Each of them."""
        return self.recovery_points, self.start_offsets, self.high_watermarks, self.cleaner_offsets

    def note(self) -> Steps[None]:
        """Take over where the logs are; a log that was not opened is where it was.

        What another thread notes or forgets meanwhile is newer: then it begins again, and at last goes on without a
        pause.
        """
        attempt = 0
        while True:
            attempt += 1
            before = self._forgotten, [each.offsets for each in self.all]
            steps = self._offsets()
            found = drain(steps) if attempt == _ATTEMPTS else (yield from steps)
            now = self._forgotten, [each.offsets for each in self.all]
            if now[0] == before[0] and all(new is old for new, old in zip(now[1], before[1], strict=True)):
                break
        for checkpoint, offsets in zip(self.all, found, strict=True):
            checkpoint.offsets = offsets

    def _offsets(self) -> Steps[tuple[Offsets, ...]]:
        kept: list[dict[TopicPartition, int]] = []
        passed = 0
        for checkpoint in self.all:
            offsets: dict[TopicPartition, int] = {}
            kept.append(offsets)
            for key, offset in checkpoint.offsets.items():
                if self._exists(key):
                    offsets[key] = offset
                passed += 1
                if not passed % _OF_A_STEP:
                    yield
        recovery_points, start_offsets, high_watermarks, _ = kept
        for partition, log in self._opened():
            passed += 1
            if not passed % _OF_A_STEP:
                yield
            if not log.has_directory:
                continue
            key = partition.key
            recovery_points[key] = log.recovery_point
            high_watermarks[key] = log.high_watermark
            if log.log_start_offset > log.segments[0].base_offset:
                start_offsets[key] = log.log_start_offset
            else:
                start_offsets.pop(key, None)
        return tuple(kept)

    def forget(self, names: Iterable[str]) -> Steps[None]:
        """New topics take these names: drop what older ones of that name have left. OSError."""
        topics = frozenset(names)
        self._forgotten += 1
        for checkpoint in self.all:
            yield from checkpoint.forget(topics)
        self._forgotten += 1

    @contextmanager
    def replaced(self) -> Generator[None]:
        """Write no file within the block, which replaces them; then read them."""
        with ExitStack() as locks:
            for checkpoint in self.all:
                locks.enter_context(checkpoint.lock)
            yield
            self._forgotten += 1
            for checkpoint in self.all:
                checkpoint.load()

    def save(self, *, sync: bool) -> None:
        """Note where the logs are, and write all files; with `sync` down to the disk. OSError."""
        drain(self.note())
        for checkpoint in self.all:
            checkpoint.save(sync=sync)

    def save_aside(self, *checkpoints: OffsetCheckpoint) -> None:
        """Write these files aside from the event loop. An error is logged."""
        for checkpoint in checkpoints:
            if checkpoint.is_behind:
                self._background(checkpoint.save_logged)
