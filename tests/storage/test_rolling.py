"""When a log begins a new segment."""

import os
import struct
from pathlib import Path

import pytest

from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import RecordBatchTooLargeError
from tests.storage.helpers import NOW, Home, a_batch, offsets_of


def test_a_segment_is_rolled_before_it_would_exceed_its_size(tmp_path: Path) -> None:
    size = a_batch().size
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=3 * size))
    home.append(*(a_batch() for _ in range(7)))
    assert [(segment.base_offset, segment.size) for segment in home.log.segments] == [
        (0, 3 * size),
        (3, 3 * size),
        (6, size),
    ]
    assert home.names(".log") == [f"{base:020d}.log" for base in (0, 3, 6)]
    assert home.file("00000000000000000003.index").stat().st_size == 0
    assert home.file("00000000000000000003.timeindex").stat().st_size == 12
    assert home.file("00000000000000000006.index").stat().st_size == 10 << 20
    assert home.names(".snapshot") == ["00000000000000000003.snapshot", "00000000000000000006.snapshot"]
    assert offsets_of(home.log) == list(range(7))


@pytest.mark.parametrize(
    ("times", "bases"),
    [
        ([(time, NOW) for time in (5000, 6000, 100, 6001, 7001, 7002)], [0, 3, 5]),
        # Without timestamps, the wall clock counts from the creation of the segment, which is at NOW.
        ([(-1, NOW + by) for by in (0, 1000, 1001, 2001, 2002)], [0, 2, 4]),
        # An empty segment is never too old.
        ([(-1, NOW + 5000)], [0]),
    ],
)
def test_a_batch_that_is_too_late_begins_a_new_segment(
    tmp_path: Path, times: list[tuple[int, int]], bases: list[int]
) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(segment_ms=1000))
    for time, now_ms in times:
        home.append(a_batch(timestamps=[time]), now_ms=now_ms)
    assert [segment.base_offset for segment in home.log.segments] == bases


def test_the_clock_of_a_reopened_segment_starts_at_its_first_batch(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(segment_ms=1000))
    home.append(a_batch(timestamps=[5000]), a_batch(timestamps=[5500]))
    home.reopen(LastStop.CLEAN)
    home.append(a_batch(timestamps=[6000]))
    assert len(home.log.segments) == 1
    home.append(a_batch(timestamps=[6001]))
    assert [segment.base_offset for segment in home.log.segments] == [0, 3]


@pytest.mark.parametrize(("index_bytes", "batches_per_segment"), [(24, 2), (36, 3), (60, 5)])
def test_a_full_index_begins_a_new_segment(tmp_path: Path, index_bytes: int, batches_per_segment: int) -> None:
    # Every batch except the first gets entries. The time index has one reserved slot, so it is full before the offset
    # index.
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=0, segment_index_bytes=index_bytes))
    count = 20
    for number in range(count):
        home.append(a_batch(timestamps=[NOW + number]))
    assert [segment.base_offset for segment in home.log.segments] == list(range(0, count, batches_per_segment))
    assert offsets_of(home.log) == list(range(count))


def test_an_offset_that_is_too_far_for_an_int32_begins_a_new_segment(home: Home) -> None:
    far = a_batch()
    header = far.header._replace(last_offset_delta=2**31 - 1)
    struct.pack_into(">i", far.view, 23, 2**31 - 1)
    home.log.append(far.view, header, 0, NOW)
    home.append(a_batch(), a_batch())
    assert [segment.base_offset for segment in home.log.segments] == [0, 2**31]
    assert home.log.log_end_offset == 2**31 + 2


def test_a_batch_that_no_segment_can_hold_is_refused(home: Home) -> None:
    home.append(a_batch())
    with pytest.raises(RecordBatchTooLargeError, match="1500"):
        home.stage(a_batch(value=b"v" * 1500))
    assert home.append(a_batch()) == [1]


def test_rolling_by_hand_begins_at_the_end_and_does_nothing_twice(home: Home) -> None:
    home.append(a_batch(5))
    home.stage(a_batch(2))
    home.log.roll(NOW)
    home.log.roll(NOW)
    assert home.append(a_batch()) == [7]
    assert [segment.base_offset for segment in home.log.segments] == [0, 7]


def test_a_roll_writes_what_was_staged_before(tmp_path: Path) -> None:
    size = a_batch().size
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=2 * size))
    home.stage(a_batch(), a_batch())
    assert home.log.log_end_offset == 0
    home.stage(a_batch())
    assert home.log.log_end_offset == 2
    home.log.commit()
    assert home.log.log_end_offset == 3


def test_indexes_without_room_for_an_entry_do_not_stop_the_log(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=0, segment_index_bytes=8))
    home.append(a_batch())
    home.append(a_batch(), a_batch())
    assert offsets_of(home.log) == [0, 1, 2]


def test_a_changed_configuration_counts_from_the_next_batch(home: Home) -> None:
    size = a_batch().size
    home.append(a_batch(), a_batch())
    home.log.config = LogConfig(segment_bytes=2 * size)
    assert home.log.config.segment_bytes == 2 * size
    home.append(a_batch())
    assert [segment.base_offset for segment in home.log.segments] == [0, 2]


def test_jitter_lets_a_segment_go_earlier_but_never_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(range(300, 10_000, 1000))
    monkeypatch.setattr(os, "urandom", lambda size: next(drawn).to_bytes(size, "big"))
    home = Home(tmp_path / "orders-0", LogConfig(segment_ms=1000, segment_jitter_ms=400))  # The jitter is 300 % 400.
    home.append(a_batch(timestamps=[5000]), a_batch(timestamps=[5700]))
    assert len(home.log.segments) == 1
    home.append(a_batch(timestamps=[5701]))  # The new segment's jitter is 1300 % 400.
    home.append(a_batch(timestamps=[6601]))
    assert [segment.base_offset for segment in home.log.segments] == [0, 2]
    home.append(a_batch(timestamps=[6602]))
    assert [segment.base_offset for segment in home.log.segments] == [0, 2, 4]


def test_without_jitter_nothing_is_drawn_and_it_is_bounded_by_the_time_itself(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(segment_ms=10, segment_jitter_ms=10**9))
    assert 0 <= home.log.segments[0].roll_jitter_ms < 10
    home.log.config = LogConfig(segment_ms=10)
    assert home.log.segments[0].roll_jitter_ms == 0


def test_a_compacted_segment_is_rolled_in_time_for_its_cleaning(tmp_path: Path) -> None:
    for compact, bases in ((True, [0, 1]), (False, [0])):
        home = Home(tmp_path / f"orders-{int(compact)}", LogConfig(compact=compact, max_compaction_lag_ms=100))
        home.append(a_batch(timestamps=[NOW]))
        home.append(a_batch(timestamps=[NOW + 101]))
        assert [segment.base_offset for segment in home.log.segments] == bases


@pytest.mark.parametrize("last_stop", LastStop)
def test_an_older_index_that_a_kill_left_untrimmed_is_trimmed_by_the_next_start(
    home: Home, last_stop: LastStop
) -> None:
    home.append(a_batch(timestamps=[NOW]))
    home.log.roll(NOW)
    home.append(a_batch(timestamps=[NOW + 1]))
    home.log.close()
    names = ["00000000000000000000.index", "00000000000000000000.timeindex"]
    before = {name: home.file(name).read_bytes() for name in names}
    for name, data in before.items():
        home.file(name).write_bytes(data + bytes(2400))
    home.open(last_stop=last_stop, recovery_point=2)
    assert {name: home.file(name).read_bytes() for name in names} == before
