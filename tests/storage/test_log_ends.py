"""Changes of a log's start and end: deletion of old segments, truncation."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogClosedError, LogWriteError, OffsetOutOfRangeError
from tests.storage.helpers import LOG, NOW, SMALL, Home, a_batch, creates_file, filled, offsets_of, refusing, sequenced


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return filled(tmp_path)


def test_the_log_start_moves_forward_only_and_not_beyond_the_end(home: Home) -> None:
    home.log.advance_log_start_offset(50)
    home.log.advance_log_start_offset(20)
    assert home.log.log_start_offset == 50
    with pytest.raises(OffsetOutOfRangeError):
        home.log.read(49, 100)
    assert offsets_of(home.log)[0] == 48
    with pytest.raises(OffsetOutOfRangeError):
        home.log.advance_log_start_offset(181)
    assert home.file("leader-epoch-checkpoint").read_text() == "0\n1\n0 50\n"
    assert home.reopen(LastStop.CLEAN, log_start_offset=50).log_start_offset == 50


def test_old_segments_are_removed_with_their_snapshots_and_the_log_begins_later(home: Home) -> None:
    second, third = (segment.base_offset for segment in home.log.segments[1:3])
    home.log.advance_log_start_offset(second - 1)
    assert home.log.delete_old_segments(NOW) == 0
    home.log.advance_log_start_offset(third + 1)
    assert home.log.delete_old_segments(NOW) == 2
    assert home.log.log_start_offset == third + 1
    assert home.names(".log")[0] == f"{third:020d}.log"
    assert f"{second:020d}.snapshot" not in home.names(".snapshot")
    assert offsets_of(home.log)[0] == third
    home.log.advance_log_start_offset(home.log.log_end_offset)
    home.log.delete_old_segments(NOW)
    assert len(home.log.segments) == 1
    assert home.reopen(LastStop.CLEAN).log_start_offset == home.log.segments[0].base_offset


def test_a_pinned_segment_is_read_to_the_end_after_its_deletion(home: Home) -> None:
    data = home.log.read(0, 1 << 20)
    expected = data.read()
    with data.handle as fd:
        home.log.advance_log_start_offset(home.log.log_end_offset)
        home.log.delete_old_segments(NOW)
        assert not home.file(LOG).exists()
        assert os.pread(fd, data.size, data.position) == expected
    with pytest.raises(LogClosedError):
        data.read()


@pytest.mark.parametrize("offset", [0, 1, 3, 42, 57, 90, 100, 177, 178, 179, 180, 500])
def test_truncation_drops_everything_from_the_batch_of_the_offset_on(home: Home, offset: int) -> None:
    home.stage(a_batch())
    home.log.truncate_to(offset, NOW)
    end = min(offset, 180)
    assert home.log.log_end_offset == home.log.high_watermark == end
    remaining = list(range(0, end - end % 3, 3))
    assert offsets_of(home.log) == remaining
    assert home.append(a_batch()) == [end]
    assert offsets_of(home.reopen(LastStop.CLEAN)) == [*remaining, end]
    assert offsets_of(home.reopen(LastStop.CRASHED)) == [*remaining, end]


def test_truncation_takes_producers_and_epochs_back(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0")
    for number in range(80):
        home.append(sequenced(2 * number, 2), leader_epoch=number // 20)
    assert len(home.log.segments) > 2
    home.log.truncate_to(90, NOW)
    assert home.log.producers.active[7].last_sequence == 89
    assert home.log.epochs.entries == ((0, 0), (1, 40), (2, 80))
    assert home.file("leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 40\n2 80\n"
    assert home.log.producers.check(sequenced(90, 2).header) is None


def test_truncating_fully_begins_anew(home: Home) -> None:
    home.append(sequenced(0))
    home.log.truncate_fully_and_start_at(1000, NOW)
    assert (home.log.log_start_offset, home.log.log_end_offset, home.log.size) == (1000, 1000, 0)
    assert dict(home.log.producers.active) == {}
    assert home.names(".log") == ["00000000000000001000.log"]
    assert home.append(a_batch()) == [1000]


def test_truncating_below_the_first_segment_begins_anew_there(home: Home) -> None:
    home.log.advance_log_start_offset(home.log.log_end_offset)
    home.log.delete_old_segments(NOW)
    home.log.truncate_to(5, NOW)
    assert (home.log.log_start_offset, home.log.log_end_offset) == (5, 5)


def test_truncating_to_the_very_start_of_the_first_segment_keeps_it(tmp_path: Path) -> None:
    home = filled(tmp_path, 3)
    home.log.truncate_to(0, NOW)
    assert home.append(a_batch()) == [0]
    assert home.names(".log") == [LOG]


def test_the_log_start_moves_on_a_full_disk_and_the_next_start_mends_the_epochs(home: Home) -> None:
    before = home.file("leader-epoch-checkpoint").read_text()
    with refusing("open", when=creates_file):
        home.log.advance_log_start_offset(50)
        assert home.log.log_start_offset == 50
        assert home.log.delete_old_segments(NOW) > 0
    assert home.file("leader-epoch-checkpoint").read_text() == before
    assert home.reopen(LastStop.CLEAN, log_start_offset=50).log_start_offset == 50
    assert home.file("leader-epoch-checkpoint").read_text() == "0\n1\n0 50\n"


def test_retention_frees_what_it_can_where_there_is_no_room_for_a_new_segment(tmp_path: Path) -> None:
    home = filled(tmp_path, config=replace(SMALL, retention_ms=1))
    last = home.log.segments[-1].base_offset
    count = len(home.log.segments)
    with refusing("open", when=creates_file):
        assert home.log.delete_old_segments(NOW + 1_000_000) == count - 1
        assert (home.log.log_start_offset, home.log.log_end_offset) == (last, 180)
        with pytest.raises(LogWriteError):
            home.log.delete_old_segments(NOW + 1_000_000)
    assert home.log.delete_old_segments(NOW + 1_000_000) == 1
    assert home.log.log_start_offset == 180
