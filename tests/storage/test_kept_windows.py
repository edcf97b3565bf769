"""The cached windows of an index: the reads they save, and their invalidation."""

import random
import shutil
from pathlib import Path

import pytest

from minibroker_protocol.records.header import BatchHeader
from minibroker_storage.cleaner import finish_cleaning, plan_cleaning
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import LogWriteError
from minibroker_storage.files import FilePool
from minibroker_storage.log import Log
from minibroker_storage.offset_index import OffsetIndex
from tests.storage.counted_reads import counted, linux_only
from tests.storage.helpers import NOW, Disk, Home, a_batch, batches_of

EACH = LogConfig(index_interval_bytes=0)
"""Every batch except the first has an index entry."""


def index_of(path: Path, *entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(FilePool(10).handle(str(path / "i.index")), 0, 10 << 20)
    (path / "i.index").touch()
    add(index, *entries)
    return index


def add(index: OffsetIndex, *entries: tuple[int, int]) -> None:
    for offset, position in entries:
        index.stage(offset, position)
    index.commit()


def check_each_offset(log: Log) -> None:
    """Compare each read with a scan of the log."""
    headers: list[BatchHeader] = [header.header for header in batches_of(log)]
    for segment in log.segments:
        segment.resume_at(0, 0, -1)
    for offset in random.Random(1).sample(range(log.log_start_offset, log.log_end_offset), k=log.log_end_offset):
        expected = next(header for header in headers if header.last_offset >= offset)
        data = log.read(offset, 1)
        assert data.size == expected.size_in_bytes
        assert int.from_bytes(data.read()[:8], "big") == expected.base_offset


@linux_only
def test_a_window_is_read_once(tmp_path: Path) -> None:
    index = index_of(tmp_path, *((7 * number, 5000 * number) for number in range(1, 2000)))
    for reads_expected in (4, 0):
        with counted() as reads:
            for offset in range(0, 14_000, 11):
                assert index.lookup(offset).offset == min(offset // 7, 1999) * 7
                assert index.entry_at_or_below(5000 * offset).offset == min(offset, 1999) * 7
        assert reads.count(".index") == reads_expected


def test_entries_that_come_are_found(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    for number in range(1, 1200):
        add(index, (10 * number, 100 * number))
        assert index.lookup(10**6) == (10 * number, 100 * number)
        assert index.positions_around(10 * number - 1) == (100 * number - 100, 100 * number)
        assert index.positions_around(10 * number) == (100 * number, -1)


@pytest.mark.parametrize("left", [0, 1, 511, 512, 513, 600])
def test_entries_that_go_are_not_found(tmp_path: Path, left: int) -> None:
    index = index_of(tmp_path, *((10 * number, 100 * number) for number in range(1, 1200)))
    assert [index.lookup(offset).position for offset in (5000, 11_000)] == [50_000, 110_000]
    index.truncate_to(10 * left + 1)
    assert index.lookup(10**6) == (10 * left, 100 * left)
    add(index, *((10 * number, 77 * number + 50_000) for number in range(left + 1, 1100)))
    for number in range(1, 1100):
        position = 100 * number if number <= left else 77 * number + 50_000
        assert index.lookup(10 * number + 3) == (10 * number, position)
        assert index.entry_at_or_below(position).offset == 10 * number


def test_entries_of_a_write_that_failed_are_not_found(tmp_path: Path) -> None:
    index = index_of(tmp_path, (10, 100))
    state = index.state
    add(index, (20, 200), (30, 300))
    assert index.lookup(25) == (20, 200)
    index.rollback(state)
    add(index, (22, 250), (30, 310))
    assert index.lookup(25) == (22, 250)
    index.file.close()


def test_a_file_that_is_loaded_again_is_read_again(tmp_path: Path) -> None:
    index = index_of(tmp_path, (10, 100), (20, 200))
    assert index.lookup(25) == (20, 200)
    (tmp_path / "i.index").write_bytes(bytes([0, 0, 0, 11, 0, 0, 0, 101, 0, 0, 0, 21, 0, 0, 0, 201]))
    index.load()
    assert index.lookup(25) == (21, 201)


def test_a_truncated_log_that_grows_again_is_read_right(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", EACH)
    home.append(*(a_batch(1 + number % 3, value=b"v" * (number * 7 % 90)) for number in range(300)))
    check_each_offset(home.log)
    home.log.truncate_to(250, NOW)
    home.append(*(a_batch(1 + number % 4, value=b"v" * (number * 13 % 70)) for number in range(300)))
    check_each_offset(home.log)


def test_a_failed_append_leaves_nothing_behind(tmp_path: Path, disk: Disk) -> None:
    home = Home(tmp_path / "orders-0", EACH)
    home.append(*(a_batch(value=b"v" * number) for number in range(100)))
    check_each_offset(home.log)
    staged = (a_batch(3), a_batch(2))
    disk.room = sum(batch.size for batch in staged) + 10
    home.stage(*staged)  # There is room for the batches and a part of their index entries.
    with pytest.raises(LogWriteError, match="No space left"):
        home.log.commit()
    disk.room = None
    home.append(*(a_batch(2, value=b"v" * number) for number in range(100)))
    check_each_offset(home.log)


def test_a_compacted_segment_is_read_right(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0, compact=True, min_cleanable_dirty_ratio=0.01)
    home = Home(tmp_path / "orders-0", config)
    home.append(*(a_batch(1 + number % 3, value=b"v" * (number % 60)) for number in range(200)))
    home.log.roll(NOW)
    home.append(a_batch())
    check_each_offset(home.log)
    plan = plan_cleaning(home.log, None, NOW)
    assert plan is not None
    finish_cleaning(home.log, clean(plan))
    check_each_offset(home.log)


def test_a_log_in_the_directory_of_a_deleted_one_is_read_right(tmp_path: Path) -> None:
    files = FilePool(10)
    home = Home(tmp_path / "orders-0", EACH, files)
    home.append(*(a_batch(value=b"v" * number) for number in range(100)))
    check_each_offset(home.log)
    shutil.rmtree(home.log.delete())
    home = Home(tmp_path / "orders-0", EACH, files)
    home.append(*(a_batch(2, value=b"v" * (200 - number)) for number in range(100)))
    check_each_offset(home.log)


@linux_only
def test_a_seek_among_large_batches_reads_one_head(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(a_batch(5, value=b"v" * 4000) for _ in range(400)))
    home.log.segments[0].truncate_to(2000, NOW)  # This drops the remembered positions of the newest batches.
    chance = random.Random(3)
    home.log.read(0, 1)
    with counted() as reads:
        for _ in range(100):
            offset = chance.randrange(1990)
            assert home.log.read(offset, 1).read()[:8] == (offset - offset % 5).to_bytes(8, "big")
    assert reads.count(".index") <= 1
    assert reads.count(".log") == 100 * 2  # Each look-up reads a header, then the batch.
