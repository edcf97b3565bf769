"""Swapping cleaned segments into a log that has changed in the meantime, and into one whose broker died."""

import errno
import os
from pathlib import Path

import pytest

from minibroker_storage.cleaner import (
    CleaningAbortedError,
    CleaningPlan,
    CleaningResult,
    finish_cleaning,
    plan_cleaning,
)
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.layout import create_partition_directory
from minibroker_storage.log import Log
from tests.storage.cleaning import Entry, batch, pairs_of
from tests.storage.helpers import NOW, TOPIC_ID, Moments, abandon, batches_of, open_log, refusing

CONFIG = LogConfig(
    segment_bytes=1 << 20, segment_index_bytes=1200, compact=True, delete=True, min_cleanable_dirty_ratio=0.01
)
KEYS = [b"key %d" % number for number in range(4)]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log of six closed segments and an active one. Each segment overwrites half of the previous one."""
    directory = tmp_path / "orders-0"
    create_partition_directory(str(directory), TOPIC_ID)
    log = open_log(directory, CONFIG)
    for number in range(7):
        if number:
            log.roll(NOW)
        append(log, batch(0, *((KEYS[(number + key) % 4], b"value %d" % number) for key in range(2))))
    return log


def append(log: Log, log_entry: Entry) -> None:
    log.append(memoryview(bytearray(log_entry.data)), log_entry.header, 0, NOW)
    log.commit()


def remove_below(log: Log, offset: int) -> None:
    log.advance_log_start_offset(offset)
    assert log.delete_old_segments(NOW)


def planned(log: Log, segment_bytes: int = 1 << 20, first_dirty_offset: int | None = None) -> CleaningPlan:
    plan = plan_cleaning(log, first_dirty_offset, NOW)
    assert plan is not None
    return plan._replace(segment_bytes=segment_bytes)


def cleaned(log: Log, segment_bytes: int = 1 << 20) -> CleaningResult:
    return clean(planned(log, segment_bytes))


def held(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return pairs_of(Entry(bytes(batch.buffer), batch.header) for batch in batches_of(log))


def names(log: Log, *suffixes: str) -> list[str]:
    return sorted(name for name in os.listdir(log.directory) if name.endswith(suffixes))


def test_a_finished_cleaning_is_what_readers_see(log: Log) -> None:
    before = held(log)
    result = cleaned(log)
    assert held(log) == before
    assert finish_cleaning(log, result) == 12
    newest = {key: offset for offset, key, _ in before if offset < 12}
    assert held(log) == [record for record in before if record[0] >= 12 or newest[record[1]] == record[0]]
    assert [segment.base_offset for segment in log.segments] == [0, 12]
    assert names(log, ".cleaned", ".swap") == []
    assert plan_cleaning(log, 12, NOW, force=True) is None


def test_old_files_are_handed_over_for_removal(log: Log) -> None:
    finish_cleaning(log, cleaned(log))
    deleted = log.take_deleted_files()
    assert sorted(os.path.basename(path) for path in deleted) == names(log, ".deleted")
    assert len([path for path in deleted if ".log." in path]) == 6


def test_the_log_takes_appends_while_it_is_cleaned(log: Log) -> None:
    plan = planned(log)
    append(log, batch(0, (KEYS[0], b"late")))
    log.roll(NOW)
    append(log, batch(0, (KEYS[1], b"later")))
    result = clean(plan)
    append(log, batch(0, (KEYS[2], b"latest")))
    finish_cleaning(log, result)
    assert [value for _, _, value in held(log)][-3:] == [b"late", b"later", b"latest"]
    assert log.log_end_offset == 17
    assert finish_cleaning(log, clean(planned(log, first_dirty_offset=result.next_dirty_offset))) == 15


def test_a_reader_that_is_sending_a_segment_reads_it_to_its_end(log: Log) -> None:
    data = log.read(4, 1000)
    data.handle.pin()
    before = data.read()
    finish_cleaning(log, cleaned(log))
    for path in log.take_deleted_files():
        os.unlink(path)
    assert os.pread(data.handle.pin(), data.size, data.position) == before
    data.handle.unpin()
    data.handle.unpin()


def test_a_swapped_log_opens_again_the_same(log: Log) -> None:
    finish_cleaning(log, cleaned(log, 200))
    before = held(log), [segment.base_offset for segment in log.segments]
    log.close()
    for last_stop in LastStop:
        again = open_log(Path(log.directory), CONFIG, last_stop)
        assert (held(again), [segment.base_offset for segment in again.segments]) == before
        abandon(again)


# Changes in the meantime


def test_groups_that_retention_has_removed_are_given_up(log: Log) -> None:
    result = cleaned(log, 200)
    assert [group.source_base_offsets for group in result.groups] == [[0, 2], [4, 6], [8, 10]]
    remove_below(log, 4)
    assert finish_cleaning(log, result) == 12
    assert [segment.base_offset for segment in log.segments] == [4, 8, 12]
    assert names(log, ".cleaned") == []


def test_a_group_that_retention_has_removed_in_part_is_cleaned_again(log: Log) -> None:
    result = cleaned(log, 200)
    remove_below(log, 2)
    before = held(log)
    assert finish_cleaning(log, result) == 0
    assert [segment.base_offset for segment in log.segments] == [2, 4, 8, 12]
    assert names(log, ".cleaned") == []
    assert finish_cleaning(log, clean(planned(log, first_dirty_offset=0))) == 12
    newest = {key: offset for offset, key, _ in before if offset < 12}
    assert held(log) == [record for record in before if record[0] >= 12 or newest[record[1]] == record[0]]


def test_groups_behind_a_truncation_are_given_up_and_cleaned_again(log: Log) -> None:
    result = cleaned(log, 200)
    log.truncate_to(6, NOW)
    append(log, batch(0, (KEYS[0], b"again" * 10)))
    log.roll(NOW)
    assert finish_cleaning(log, result) == 0
    assert held(log)[-1] == (6, KEYS[0], b"again" * 10)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 6, 7]
    assert names(log, ".cleaned") == []


def test_the_dirty_offset_does_not_lie_behind_a_truncated_log(log: Log) -> None:
    result = cleaned(log, 10)
    log.truncate_to(8, NOW)
    assert finish_cleaning(log, result) <= 8


def test_a_log_that_was_deleted_takes_nothing(log: Log) -> None:
    result = cleaned(log)
    log.delete()
    with pytest.raises(CleaningAbortedError):
        finish_cleaning(log, result)


def test_a_log_that_was_closed_takes_nothing_and_leaves_nothing(log: Log) -> None:
    result = cleaned(log)
    log.close()
    with pytest.raises(CleaningAbortedError):
        finish_cleaning(log, result)
    assert names(log, ".cleaned", ".swap") == []
    assert len(held(open_log(Path(log.directory), CONFIG, LastStop.KILLED))) == 14


def test_files_of_an_older_cleaning_are_removed_before_the_swap(log: Log) -> None:
    result = cleaned(log, 200)
    for name in ("00000000000000000001.log.cleaned", "00000000000000000099.index.cleaned"):
        (Path(log.directory) / name).touch()
    seen: list[list[str]] = []
    rename = os.rename

    def look(source: str, target: str) -> None:
        seen.append(names(log, ".cleaned"))
        rename(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", look)
        finish_cleaning(log, result)
    assert seen
    assert all(int(name[:20]) in {0, 4, 8} for listing in seen for name in listing)


def test_a_swap_that_fails_leaves_the_log_as_it_is_behind_it(log: Log) -> None:
    result = cleaned(log, 200)
    before = held(log)
    with (
        refusing("rename", errno.EIO, lambda source, _: "00000000000000000004" in source),
        pytest.raises(OSError, match=os.strerror(errno.EIO)),
    ):
        finish_cleaning(log, result)
    assert names(log, ".cleaned", ".swap") == []
    assert held(log)[-10:] == before[-10:]
    assert [segment.base_offset for segment in log.segments] == [0, 4, 6, 8, 10, 12]


# Crashes


@pytest.mark.parametrize("last_stop", [LastStop.KILLED, LastStop.CRASHED])
def test_a_crash_at_any_moment_of_a_swap_loses_nothing(log: Log, tmp_path: Path, last_stop: LastStop) -> None:
    before = held(log)
    newest = {key: offset for offset, key, _ in before}
    result = cleaned(log, 200)
    with Moments(Path(log.directory), tmp_path / "copies") as copies:
        finish_cleaning(log, result)
    assert len(copies) > 30
    after = held(log)
    for directory in copies:
        again = open_log(directory, CONFIG, last_stop)
        records = held(again)
        assert set(after) <= set(records) <= set(before)
        assert [record for record in records if newest[record[1]] == record[0]] == [
            record for record in before if newest[record[1]] == record[0]
        ]
        assert [offset for offset, _, _ in records] == sorted(offset for offset, _, _ in records)
        assert again.log_end_offset == log.log_end_offset
        assert names(again, ".cleaned", ".swap", ".deleted") == []
        finish_cleaning(again, cleaned(again, 200))
        assert held(again) == after
        again.close()


def test_a_crash_while_segments_are_cleaned_leaves_the_log_as_it_was(log: Log, tmp_path: Path) -> None:
    before = held(log)
    plan = planned(log, 10)
    with Moments(Path(log.directory), tmp_path / "copies") as copies:
        clean(plan)
    assert any(path.name.endswith(".cleaned") for directory in copies for path in directory.iterdir())
    for directory in copies:
        again = open_log(directory, CONFIG, LastStop.KILLED)
        assert held(again) == before
        assert names(again, ".cleaned") == []
        again.close()
