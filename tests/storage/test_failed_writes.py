"""A full or broken disk: every failed write is undone, and the log stays usable."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogWriteError
from minibroker_storage.files import FilePool
from tests.storage.helpers import (
    LOG,
    NOW,
    SMALL,
    Disk,
    Home,
    a_batch,
    contents,
    creates_file,
    offsets_of,
    refusing,
    sequenced,
)

DENSE = LogConfig(index_interval_bytes=0, segment_index_bytes=1200)


def state_of(home: Home) -> tuple[Any, ...]:
    """Return all state, in memory and on disk, that a failed write must not change."""
    log = home.log
    return (
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        log.size,
        log.epochs.entries,
        dict(log.producers.active),
        [
            (s.base_offset, s.size, s.end, s.max_timestamp, s.offset_index.state, s.time_index.state)
            for s in log.segments
        ],
        {name: data for name, data in contents(home.path).items() if not name.endswith("index")},
    )


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("room", [0, 1, 8, 75, 76, 77, 160])
def test_a_failed_commit_is_undone_and_the_next_one_succeeds(tmp_path: Path, disk: Disk, room: int, error: int) -> None:
    home = Home(tmp_path / "orders-0", DENSE)
    home.append(sequenced(0, timestamps=[NOW]), sequenced(1, timestamps=[NOW + 1]))
    before = state_of(home)
    disk.error = error
    assert home.stage(sequenced(2), a_batch(timestamps=[NOW + 50]), sequenced(0, producer_id=9)) == [2, 3, 4]
    with disk.full_after(room) as raised:
        home.log.commit()
    assert raised.value.log_end_offset == 2
    assert state_of(home) == before
    assert offsets_of(home.log) == [0, 1]
    home.log.commit()  # Nothing remains to be written.
    assert home.append(sequenced(2), a_batch()) == [2, 3]
    assert offsets_of(home.reopen(LastStop.CLEAN)) == [0, 1, 2, 3]


@pytest.mark.parametrize("room", range(0, 40, 3))
def test_a_failed_index_write_takes_the_batches_back_too(tmp_path: Path, disk: Disk, room: int) -> None:
    home = Home(tmp_path / "orders-0", DENSE)
    home.append(*(a_batch(timestamps=[NOW + number]) for number in range(3)))
    before = state_of(home)
    batches = [a_batch(timestamps=[NOW + 10 + number]) for number in range(2)]
    home.stage(*batches)
    # The offset index needs 16 bytes, the time index 24.
    with disk.full_after(sum(batch.size for batch in batches) + room):
        home.log.commit()
    assert state_of(home) == before
    home.append(*(a_batch(timestamps=[NOW + 20 + number]) for number in range(4)))
    index, times = home.log.segments[0].offset_index, home.log.segments[0].time_index
    assert [index.entry(slot).offset for slot in range(index.entries)] == [1, 2, 3, 4, 5, 6]
    assert [times.entry(slot) for slot in range(times.entries)] == [
        (NOW + by, offset) for by, offset in ((1, 1), (2, 2), (20, 3), (21, 4), (22, 5), (23, 6))
    ]


def test_positions_of_batches_that_were_not_written_are_forgotten(home: Home, disk: Disk) -> None:
    home.append(a_batch())
    home.stage(a_batch(2), a_batch(2))  # Their offsets are 1 and 3.
    with disk.full_after():
        home.log.commit()
    home.append(a_batch(9))
    assert offsets_of(home.log, 3) == [1]


@pytest.mark.parametrize("count", [1, 3])
def test_the_callers_buffers_are_free_once_a_commit_has_failed(home: Home, disk: Disk, count: int) -> None:
    buffer = bytearray(a_batch().view)
    header = a_batch().header
    views = [memoryview(buffer)[:] for _ in range(count)]
    for view in views:
        home.log.append(view, header, 0, NOW)
    with disk.full_after(30) as raised:
        home.log.commit()
    for view in views:
        view.release()
    buffer.append(0)
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("most", [1, 7, 76, 100])
def test_short_writes_are_completed(tmp_path: Path, disk: Disk, most: int) -> None:
    home = Home(tmp_path / "orders-0", DENSE)
    disk.most = most
    home.append(*(a_batch(2) for _ in range(5)))
    home.append(a_batch())
    assert disk.calls > 6
    assert offsets_of(home.log) == [0, 2, 4, 6, 8, 10]


def test_what_cannot_be_cut_away_now_is_cut_before_the_next_write(home: Home, disk: Disk) -> None:
    home.append(a_batch())
    home.stage(*(a_batch(value=b"lost") for _ in range(5)))
    with refusing("ftruncate", errno.EIO):
        with disk.full_after(3 * a_batch(value=b"lost").size):
            home.log.commit()
        assert home.file(LOG).stat().st_size > home.log.size
        assert offsets_of(home.log) == [0]
        home.stage(a_batch())
        with pytest.raises(LogWriteError, match=os.strerror(errno.EIO)):
            home.log.commit()
    assert home.append(a_batch(value=b"x")) == [1]
    assert home.file(LOG).stat().st_size == home.log.size
    assert offsets_of(home.reopen(LastStop.CRASHED)) == [0, 1]


def test_a_failed_checkpoint_of_the_leader_epoch_fails_the_commit(home: Home, disk: Disk) -> None:
    home.append(a_batch(), leader_epoch=1)
    before = state_of(home)
    home.stage(a_batch(), leader_epoch=2)
    with disk.full_after(3):
        home.log.commit()
    assert state_of(home) == before
    home.append(a_batch(), leader_epoch=2)
    assert home.log.epochs.entries == ((1, 0), (2, 1))
    assert home.file("leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 1\n"


def test_a_write_that_fails_while_rolling_is_told_to_all_who_staged(tmp_path: Path, disk: Disk) -> None:
    size = a_batch().size
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=3 * size))
    home.append(a_batch())
    before = state_of(home)
    home.stage(a_batch(), sequenced(0))
    disk.room = 10
    for _ in range(2):  # The first batch needs a new segment; the second is any other.
        with pytest.raises(LogWriteError) as raised:
            home.stage(a_batch())
        assert raised.value.log_end_offset == 1
    disk.room = None
    with pytest.raises(LogWriteError):
        home.log.commit()
    assert state_of(home) == before
    assert home.append(a_batch(), a_batch(), a_batch()) == [1, 2, 3]
    assert offsets_of(home.log) == [0, 1, 2, 3]


def test_a_segment_that_cannot_be_created_fails_its_batch_only(tmp_path: Path) -> None:
    size = a_batch().size
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=3 * size))
    home.stage(a_batch(), a_batch(), a_batch())
    with (
        refusing("open", when=lambda path, *flags: path.endswith(".timeindex") and creates_file(path, *flags)),
        pytest.raises(LogWriteError, match="No space left") as raised,
    ):
        home.stage(a_batch())
    assert raised.value.log_end_offset == 3
    home.log.commit()
    assert home.names(".log") == [LOG]
    assert offsets_of(home.log) == [0, 1, 2]
    assert home.append(a_batch()) == [3]
    assert [segment.base_offset for segment in home.log.segments] == [0, 3]


def test_a_roll_whose_last_index_entry_cannot_be_written_does_not_happen(home: Home, disk: Disk) -> None:
    home.append(a_batch(), a_batch())
    with disk.full_after(5):
        home.log.roll(NOW)
    assert home.names(".log") == [LOG]
    assert home.append(a_batch()) == [2]
    home.log.roll(NOW)
    assert home.append(a_batch()) == [3]
    assert offsets_of(home.log) == [0, 1, 2, 3]
    first = home.log.segments[0].time_index
    assert [first.entry(slot) for slot in range(first.entries)] == [(NOW, 0)]


def test_a_snapshot_that_cannot_be_written_at_a_roll_costs_nothing_but_time(home: Home, disk: Disk) -> None:
    home.append(sequenced(0, 3))
    disk.room = 12 + 3  # This has room for the time index's last entry, but not for the whole snapshot.
    home.log.roll(NOW)
    disk.room = None
    assert home.names(".snapshot") == []
    home.append(sequenced(3))
    assert home.reopen(LastStop.CRASHED).producers.active[7].last_sequence == 3


def test_a_log_whose_last_words_cannot_be_written_closes_its_files_all_the_same(tmp_path: Path, disk: Disk) -> None:
    home = Home(tmp_path / "orders-0", SMALL, FilePool(10))
    home.append(a_batch())
    home.stage(a_batch())
    with disk.full_after():
        home.log.close()
    assert len(home.files) == 0
    assert offsets_of(home.open(last_stop=LastStop.CRASHED)) == [0]


def test_a_closed_segment_under_a_staged_batch_is_a_failed_write(home: Home) -> None:
    home.stage(a_batch())
    home.crash()
    with pytest.raises(LogWriteError, match="closed"):
        home.log.commit()
    assert home.log.log_end_offset == 0
