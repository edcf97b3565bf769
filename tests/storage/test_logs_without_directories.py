"""The log of a partition without a directory creates one with its first batch, or fails without leaving anything."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogWriteError, RecordBatchTooLargeError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import create_partition_directory
from minibroker_storage.log import Log
from tests.storage.helpers import INDEX, LOG, NOW, SMALL, TIME_INDEX, TOPIC_ID, Batch, a_batch, refusing, sequenced
from tests.storage.time_search import find_by_timestamp, find_max_timestamp

MADE = {LOG, INDEX, TIME_INDEX, "partition.metadata", "leader-epoch-checkpoint"}


class Begun:
    """A new log that counts the calls of its `make_directory`."""

    def __init__(self, directory: Path, config: LogConfig = SMALL) -> None:
        self.directory = directory
        self.calls = 0
        self.failure: OSError | None = None
        self.log = Log.begin(
            str(directory), config=config, files=FilePool(16), now_ms=NOW, make_directory=self._make_directory
        )

    def _make_directory(self) -> None:
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        create_partition_directory(str(self.directory), TOPIC_ID)

    def append(self, batch: Batch) -> int:
        offset = self.log.append(batch.view, batch.header, 0, NOW)
        self.log.commit()
        return offset

    def reopened(self, last_stop: LastStop) -> Log:
        return Log.open(str(self.directory), config=SMALL, files=FilePool(16), now_ms=NOW, last_stop=last_stop)


@pytest.fixture
def begun(tmp_path: Path) -> Begun:
    return Begun(tmp_path / "t-0")


@pytest.mark.parametrize(
    "use",
    [
        lambda log: log.read(0, 1000).read(),
        lambda log: find_by_timestamp(log, -7),
        lambda log: find_by_timestamp(log, 0),
        find_max_timestamp,
        lambda log: log.delete_old_segments(NOW * 2),
        lambda log: log.advance_log_start_offset(0),
        lambda log: log.roll(NOW),
        lambda log: log.truncate_to(0, NOW),
        lambda log: log.take_producer_snapshot(),
        lambda log: log.flush(),
        lambda log: log.commit(),
        lambda log: log.close(),
        lambda log: log.delete(),
    ],
    ids=range(13),
)
def test_whatever_writes_nothing_makes_no_directory(begun: Begun, use: Callable[[Log], object]) -> None:
    use(begun.log)
    assert (begun.log.log_start_offset, begun.log.log_end_offset, begun.log.size) == (0, 0, 0)
    assert not begun.directory.exists()
    assert begun.calls == 0


@pytest.mark.parametrize("last_stop", LastStop)
def test_the_first_batch_makes_all_files_and_is_there_after_any_stop(begun: Begun, last_stop: LastStop) -> None:
    assert [begun.append(a_batch(2)), begun.append(a_batch())] == [0, 2]
    assert begun.calls == 1
    assert set(os.listdir(begun.directory)) == MADE
    assert (begun.directory / INDEX).stat().st_size == 1200
    if last_stop is LastStop.CLEAN:
        begun.log.close()
    assert begun.reopened(last_stop).log_end_offset == 3


def test_an_idempotent_batch_may_be_the_first(begun: Begun) -> None:
    batch = sequenced(0)
    begun.log.producers.check(batch.header)
    assert begun.append(batch) == 0
    begun.log.close()
    assert begun.reopened(LastStop.CLEAN).producers.active.keys() == {7}


def test_a_directory_that_cannot_be_made_refuses_the_batch_until_it_can(begun: Begun) -> None:
    begun.failure = OSError(errno.ENOSPC, "full")
    for _ in range(2):
        with pytest.raises(LogWriteError, match="full"):
            begun.append(a_batch())
        assert begun.log.log_end_offset == begun.log.next_offset == 0
    begun.failure = None
    assert begun.append(a_batch()) == 0
    assert begun.calls == 3
    assert begun.reopened(LastStop.KILLED).log_end_offset == 1


def test_indexes_that_cannot_be_sized_are_sized_with_the_next_batch(begun: Begun) -> None:
    with refusing("ftruncate"), pytest.raises(LogWriteError, match="No space left"):
        begun.append(a_batch())
    assert begun.append(a_batch()) == 0
    assert begun.calls == 1
    assert (begun.directory / INDEX).stat().st_size == 1200
    begun.log.close()
    assert begun.reopened(LastStop.CLEAN).log_end_offset == 1


def test_a_batch_that_no_segment_can_hold_makes_no_directory(begun: Begun) -> None:
    with pytest.raises(RecordBatchTooLargeError):
        begun.append(a_batch(value=b"x" * 2000))
    assert not begun.directory.exists()


def test_a_log_may_begin_elsewhere(begun: Begun) -> None:
    begun.log.truncate_fully_and_start_at(40, NOW)
    assert begun.append(a_batch()) == 40
    begun.log.close()
    reopened = begun.reopened(LastStop.CLEAN)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (40, 41)


def test_a_flush_forces_the_name_of_the_new_directory_to_disk(begun: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}") if os.path.isdir("/proc/self/fd") else "")
        real(fd)

    begun.append(a_batch())
    monkeypatch.setattr(os, "fsync", fsync)
    begun.log.flush()
    parent = str(begun.directory.parent.resolve())
    assert begun.log.recovery_point == 1
    assert not os.path.isdir("/proc/self/fd") or synced[-2:] == [f"{parent}/t-0", parent]
    synced.clear()
    begun.append(a_batch())
    begun.log.flush()
    assert parent not in synced


def test_a_listener_hears_of_the_first_batch(begun: Begun) -> None:
    heard: list[object] = []
    begun.log.add_append_listener(heard.append)
    begun.append(a_batch())
    assert heard == [begun.log]
