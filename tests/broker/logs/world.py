"""Logs outside requests: filling them, inspecting their files, passing time, and crashes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.topics import Topic
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.data_directory.names import CLEAN_SHUTDOWN, LOCK_FILE
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from minibroker_storage.log import Log
from tests.broker.harness import Harness, batch

BROKER: Final = {"log.segment.bytes": "200"}
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
Make = Callable[[dict[str, str]], Harness]


def topic_of(harness: Harness, name: str = "t") -> Topic:
    return harness.topic(name)


def partition_of(harness: Harness, name: str = "t", index: int = 0) -> Partition:
    return harness.topic(name).partitions[index]


def log_of(harness: Harness, name: str = "t", index: int = 0) -> Log:
    return partition_of(harness, name, index).log


def fill(harness: Harness, name: str = "t", index: int = 0, count: int = 10, size: int = 20) -> None:
    """Produce batches of one record each, two of which fill a segment, with timestamps of the clock."""
    now_ms = harness.clock.now_ms()
    for _ in range(count):
        assert harness.produce(batch(b"x" * size, timestamp=now_ms), name, index).error_code == 0


def segments(harness: Harness, name: str = "t", index: int = 0) -> list[int]:
    directory = Path(harness.data_dir) / f"{name}-{index}"
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def deleted_files(harness: Harness, name: str = "t", index: int = 0) -> list[str]:
    return [entry for entry in os.listdir(f"{harness.data_dir}/{name}-{index}") if entry.endswith(".deleted")]


def pass_time(harness: Harness, delay_ms: int) -> None:
    harness.clock.advance(delay_ms)
    harness.run_soon()


def checkpoint(harness: Harness, name: str) -> dict[tuple[str, int], int]:
    return read_offset_checkpoint(f"{harness.data_dir}/{name}-offset-checkpoint")


def machine_crash(harness: Harness) -> None:
    """Restart as after a crash of the machine, with the boot id of another run in the lock file."""
    harness.core.logs.stop_chores()
    harness.core._data_dir.release()
    (Path(harness.data_dir) / LOCK_FILE).write_text("another-run-of-the-machine\n")
    harness.start()


def is_marked_clean(harness: Harness) -> bool:
    return (Path(harness.data_dir) / CLEAN_SHUTDOWN).exists()


class Openings(list[tuple[str, LastStop, int, int]]):
    """The arguments of each opened log: directory, last stop, recovery point, log start offset."""

    def __init__(self) -> None:
        self._real = Log.open

    def open(self, directory: str, **options: Any) -> Log:
        """Record the arguments, and open the log."""
        self.append(
            (os.path.basename(directory), options["last_stop"], options["recovery_point"], options["log_start_offset"])
        )
        return self._real(directory, **options)
