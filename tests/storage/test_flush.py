"""Flushing a log: which files are synced, when the recovery point advances, and what a failure means."""

import errno
import os
import threading
from pathlib import Path

import pytest

from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.flush import LogFlush
from tests.storage.helpers import INDEX, LOG, NOW, TIME_INDEX, Home, a_batch, filled, refusing


class Syncs:
    """Replaces fsync and records the names of the synced files in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.directory = directory
        self.names: list[str] = []
        self.error: int | None = None
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd: int) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        number = os.fstat(fd).st_ino
        files = [self.directory, *self.directory.iterdir()]
        self.names += [path.name for path in files if path.stat().st_ino == number]

    def take(self) -> list[str]:
        names, self.names = self.names, []
        return names


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch, home: Home) -> Syncs:
    return Syncs(monkeypatch, home.path)


def begun_flush(home: Home) -> LogFlush:
    flush = home.log.begin_flush()
    assert flush is not None
    return flush


def test_a_flush_moves_the_recovery_point_when_it_is_finished(home: Home) -> None:
    assert (home.log.recovery_point, home.log.unflushed_records) == (0, 0)
    home.append(a_batch(5))
    assert home.log.unflushed_records == 5
    flush = begun_flush(home)
    home.append(a_batch(2))
    home.stage(a_batch(1))
    thread = threading.Thread(target=flush.run)
    thread.start()
    thread.join()
    assert home.log.recovery_point == 0
    flush.finish()
    assert (home.log.recovery_point, home.log.unflushed_records) == (5, 2)
    home.log.commit()
    home.log.flush()
    assert (home.log.recovery_point, home.log.unflushed_records) == (8, 0)


def test_the_log_goes_before_its_indexes_and_the_directory_last(home: Home, syncs: Syncs) -> None:
    home.append(a_batch(5))
    home.log.flush()
    assert syncs.take() == [LOG, TIME_INDEX, INDEX, "leader-epoch-checkpoint", "orders-0"]


def test_only_what_changed_since_is_forced_to_disk(home: Home, syncs: Syncs) -> None:
    home.append(a_batch(5))
    home.log.flush()
    syncs.take()
    assert home.log.begin_flush() is None
    home.log.flush()
    assert syncs.take() == []
    home.append(a_batch())
    home.log.flush()
    assert syncs.take() == [LOG, TIME_INDEX, INDEX]
    for _ in range(3):
        home.append(a_batch(value=b"v" * 1000))
    home.log.flush()
    first, *later_logs = [name for name in syncs.take() if name.endswith(".log")]
    assert first == LOG
    assert later_logs == home.names(".log")[1:]
    home.append(a_batch())
    home.log.flush()
    assert [name for name in syncs.take() if name.endswith(".log")] == home.names(".log")[-1:]


def test_a_segment_that_was_closed_after_its_flush_is_forced_to_disk_once_more(home: Home, syncs: Syncs) -> None:
    home.append(a_batch(5))
    home.log.flush()
    home.log.roll(NOW)
    syncs.take()
    home.log.flush()
    assert syncs.take()[:3] == [LOG, TIME_INDEX, INDEX]
    home.append(a_batch())
    home.log.flush()
    assert home.log.recovery_point == 6
    home.append(a_batch())
    syncs.take()
    home.log.flush()
    assert [name for name in syncs.take() if name.endswith(".log")] == ["00000000000000000005.log"]


def test_a_flush_of_a_log_that_is_closed_or_deleted_meanwhile_succeeds(home: Home) -> None:
    home.append(a_batch(5))
    flush = begun_flush(home)
    home.log.close()
    again = begun_flush(home)
    flush.run()
    flush.finish()
    again.run()
    again.finish()
    assert home.log.recovery_point == 5
    home.open(last_stop=LastStop.CLEAN)
    home.append(a_batch())
    flush = begun_flush(home)
    home.log.delete()
    flush.run()


def test_a_flush_of_segments_that_retention_removes_meanwhile_succeeds(tmp_path: Path) -> None:
    home = filled(tmp_path)
    flush = begun_flush(home)
    home.log.advance_log_start_offset(170)
    assert home.log.delete_old_segments(NOW) > 2
    flush.run()
    flush.finish()
    assert home.log.recovery_point == 180


def test_a_flush_of_many_segments_keeps_no_more_descriptors_than_the_pool(tmp_path: Path) -> None:
    home = filled(tmp_path, 300)
    home.files.capacity = 3
    before = len(os.listdir("/dev/fd"))
    flush = begun_flush(home)
    assert len(os.listdir("/dev/fd")) <= before
    flush.run()
    flush.finish()
    assert home.log.recovery_point == 900


def test_a_truncation_meanwhile_takes_the_recovery_point_back(home: Home) -> None:
    home.append(a_batch(5), a_batch(5))
    home.log.flush()
    home.append(a_batch(5))
    flush = begun_flush(home)
    home.log.truncate_to(5, NOW)
    assert home.log.recovery_point == 5
    home.append(a_batch(20))
    flush.run()
    flush.finish()
    assert home.log.recovery_point == 5  # These offsets now belong to other records than the flushed ones.
    home.log.flush()
    assert home.log.recovery_point == 25


def test_after_a_failed_fsync_no_flush_succeeds_until_the_log_is_opened_anew(home: Home, syncs: Syncs) -> None:
    home.append(a_batch(5))
    home.log.flush()
    home.append(a_batch(5))
    syncs.error = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as raised:
        home.log.flush()
    assert raised.value.errno == errno.EIO
    syncs.error = None
    home.append(a_batch(5))
    with pytest.raises(OSError, match="an earlier flush failed") as raised:
        home.log.flush()
    assert raised.value.errno == errno.EIO
    assert home.log.recovery_point == 5
    home.log.close()
    home.open(last_stop=LastStop.KILLED, recovery_point=5)
    home.log.flush()
    assert home.log.recovery_point == 15


def test_a_file_that_cannot_be_opened_for_the_flush_may_be_there_the_next_time(home: Home) -> None:
    home.append(a_batch(5))
    with refusing("open", errno.EMFILE), pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        home.log.flush()
    assert home.log.recovery_point == 0
    home.log.flush()
    assert home.log.recovery_point == 5


@pytest.mark.parametrize(
    ("recovery_point", "log_start_offset", "expected"), [(0, 0, 0), (7, 0, 7), (99, 0, 10), (3, 5, 5)]
)
def test_an_opened_log_takes_its_checkpointed_recovery_point(
    tmp_path: Path, recovery_point: int, log_start_offset: int, expected: int
) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(a_batch() for _ in range(10)))
    home.reopen(LastStop.CLEAN, recovery_point=recovery_point, log_start_offset=log_start_offset)
    assert home.log.recovery_point == expected
    assert home.log.unflushed_records == 10 - expected
    assert (home.log.begin_flush() is None) == (expected == 10)
