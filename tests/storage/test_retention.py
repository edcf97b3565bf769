"""Segments removed by log start offset, size and time, and the state after a crash during the removal."""

import os
from pathlib import Path

import pytest

from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from tests.storage.helpers import NOW, Home, Moments, a_batch, abandon, offsets_of, open_log, refusing, stage_messages

DAY = 86_400_000
SIZE = a_batch().size
FOREVER = LogConfig(segment_bytes=2 * SIZE, retention_ms=-1)


def segments_of_two(tmp_path: Path, config: LogConfig, count: int = 9) -> Home:
    """Return a log with two batches of one record per segment, and a day between batches."""
    home = Home(tmp_path / "orders-0", config)
    for number in range(count):
        home.append(a_batch(timestamps=[NOW + number * DAY]))
    return home


def bases(home: Home) -> list[int]:
    return [segment.base_offset for segment in home.log.segments]


def by_time(retention_ms: int, **fields: int | bool) -> LogConfig:
    return LogConfig(segment_bytes=2 * SIZE, retention_ms=retention_ms, **fields)  # type: ignore[arg-type]  # drawn


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return segments_of_two(tmp_path, by_time(DAY))


@pytest.mark.parametrize(
    ("now_ms", "left"),
    [
        (NOW + 2 * DAY, [0, 2, 4, 6, 8]),
        (NOW + 3 * DAY, [0, 2, 4, 6, 8]),  # The first segment's newest record is at the age limit.
        (NOW + 3 * DAY + 1, [2, 4, 6, 8]),
        (NOW + 7 * DAY + 1, [6, 8]),
        (NOW + 10 * DAY, [8]),
        (NOW + 10 * DAY + 1, [9]),
    ],
)
def test_segments_of_which_every_record_is_too_old_go(tmp_path: Path, now_ms: int, left: list[int]) -> None:
    home = segments_of_two(tmp_path, by_time(2 * DAY))
    removed = home.log.delete_old_segments(now_ms)
    assert bases(home) == left
    assert removed == (5 if left == [9] else 5 - len(left))
    assert home.log.log_start_offset == left[0]
    assert offsets_of(home.log) == list(range(left[0], 9))
    assert home.append(a_batch()) == [9]


def test_a_young_segment_keeps_older_ones_behind_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", by_time(DAY))
    for time in (0, 0, 50 * DAY, 0, 0, 0, 0):
        home.append(a_batch(timestamps=[NOW + time]))
    assert home.log.delete_old_segments(NOW + 3 * DAY) == 1
    assert bases(home) == [2, 4, 6]


def test_an_empty_active_segment_stays_the_same(home: Home) -> None:
    assert home.log.delete_old_segments(NOW + 100 * DAY) == 5
    assert home.log.delete_old_segments(NOW + 200 * DAY) == 0
    assert bases(home) == [9]
    assert home.names(".snapshot") == ["00000000000000000009.snapshot"]


@pytest.mark.parametrize("magic", [None, 0])
def test_segments_without_timestamps_are_as_old_as_their_last_write(tmp_path: Path, magic: int | None) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=100, retention_ms=DAY))
    for _ in range(4):
        if magic is None:
            home.append(a_batch(timestamps=[-1]))
        else:
            data = build_message_set([NewRecord(None, b"v" * 60, -1)], magic=0, base_offset=home.log.next_offset)
            stage_messages(home.log, data, -1)
            home.log.commit()
    for number, name in enumerate(home.names(".log")):
        os.utime(home.file(name), ns=((NOW + number * DAY) * 10**6,) * 2)
    assert home.log.delete_old_segments(NOW + DAY) == 0
    assert home.log.delete_old_segments(NOW + 2 * DAY + 1) == 2
    home.reopen(LastStop.CLEAN)
    assert home.log.delete_old_segments(NOW + 4 * DAY) == 1
    assert bases(home) == [3]


@pytest.mark.parametrize(
    ("retention_bytes", "left"),
    [
        (-1, [0, 2, 4, 6, 8]),
        (10 * SIZE, [0, 2, 4, 6, 8]),
        (7 * SIZE + 1, [0, 2, 4, 6, 8]),
        (7 * SIZE, [2, 4, 6, 8]),
        (2 * SIZE, [6, 8]),
        (SIZE, [8]),
        (1, [8]),
        (0, [9]),
    ],
)
def test_segments_go_without_which_the_log_is_still_as_large(
    tmp_path: Path, retention_bytes: int, left: list[int]
) -> None:
    home = segments_of_two(
        tmp_path, LogConfig(segment_bytes=2 * SIZE, retention_ms=-1, retention_bytes=retention_bytes)
    )
    home.log.delete_old_segments(NOW)
    assert bases(home) == left
    assert offsets_of(home.log) == list(range(left[0], 9))


def test_without_the_policy_delete_only_the_log_start_offset_counts(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2 * SIZE, retention_ms=1, retention_bytes=1, compact=True, delete=False)
    home = segments_of_two(tmp_path, config)
    assert home.log.delete_old_segments(NOW + 100 * DAY) == 0
    home.log.advance_log_start_offset(5)
    assert home.log.delete_old_segments(NOW + 100 * DAY) == 2
    assert bases(home) == [4, 6, 8]
    assert home.log.log_start_offset == 5
    home.log.advance_log_start_offset(9)
    assert home.log.delete_old_segments(NOW) == 2
    assert bases(home) == [8]  # Only size and time can remove the active segment.


def test_what_is_staged_counts(tmp_path: Path) -> None:
    home = segments_of_two(tmp_path, by_time(DAY), 2)
    home.stage(a_batch(timestamps=[NOW + 20 * DAY]))
    assert home.log.delete_old_segments(NOW + 20 * DAY) == 1
    assert offsets_of(home.log) == [2]


def test_the_files_are_renamed_at_once_and_unlinked_by_the_owner(home: Home) -> None:
    data = home.log.read(0, 1 << 20)
    expected = data.read()
    with data.handle as fd:
        home.log.delete_old_segments(NOW + 4 * DAY)
        paths = home.log.take_deleted_files()
        assert sorted(Path(path).name for path in paths) == home.names(".deleted")
        assert {name[20:] for name in home.names(".deleted")} == {
            ".log.deleted",
            ".index.deleted",
            ".timeindex.deleted",
        }
        for path in paths:
            os.unlink(path)
        assert os.pread(fd, data.size, data.position) == expected
    assert home.log.take_deleted_files() == []


@pytest.mark.slow
@pytest.mark.parametrize("last_stop", LastStop)
def test_a_crash_at_any_rename_leaves_a_log_without_a_hole(home: Home, tmp_path: Path, last_stop: LastStop) -> None:
    with Moments(home.path, tmp_path / "copies") as copies:
        assert home.log.delete_old_segments(NOW + 100 * DAY) == 5
    starts = []
    for copy in copies:
        log = open_log(copy, FOREVER, last_stop)
        starts.append(log.log_start_offset)
        assert log.log_end_offset == 9
        assert offsets_of(log) == list(range(log.log_start_offset, 9))
        assert not [path for path in copy.iterdir() if path.name.endswith(".deleted")]
        abandon(log)
    assert starts == sorted(starts)
    assert set(starts) == {0, 2, 4, 6, 8, 9}


def test_a_rename_that_fails_leaves_the_segments_that_are_left(home: Home) -> None:
    with (
        refusing("rename", when=lambda source, _: "00004.log" in source),
        pytest.raises(OSError, match="No space left"),
    ):
        home.log.delete_old_segments(NOW + 7 * DAY)
    assert bases(home) == [4, 6, 8]
    assert home.log.log_start_offset == 6
    assert offsets_of(home.log) == [6, 7, 8]
    assert home.log.delete_old_segments(NOW + 7 * DAY) == 1
    assert bases(home) == [6, 8]
