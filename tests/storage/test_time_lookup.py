"""Searches by timestamp, compared with a search through all records."""

import os
import struct
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import (
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    TimestampType,
    compute_crc,
    read_header,
)
from minibroker_protocol.steps import Steps
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.entries import WALK_WINDOW_BYTES
from minibroker_storage.lookup import TimestampOffset, search_by_timestamp
from tests.storage.helpers import NOW, Batch, Home, a_batch
from tests.storage.time_search import find_by_timestamp, find_max_timestamp

numbers = count()


@pytest.fixture(scope="module")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[LogConfig], Home]:
    directory = tmp_path_factory.mktemp("logs")
    return lambda config: Home(directory / f"orders-{next(numbers)}", config)


timestamps = st.one_of(st.integers(0, 60), st.integers(0, 10**6), st.just(-1))
logs = st.lists(
    st.tuples(
        st.lists(timestamps, min_size=1, max_size=4),
        st.sampled_from(list(CompressionCodec)),
        st.sampled_from([TimestampType.CREATE_TIME, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    ),
    max_size=60,
)


@given(
    content=logs,
    rolls=st.sets(st.integers(0, 60), max_size=3),
    start=st.integers(0, 30),
    stop=st.sampled_from([None, LastStop.CLEAN, LastStop.KILLED]),
    interval=st.sampled_from([0, 100, 400, 4096]),
)
def test_the_first_record_at_or_after_a_time_is_found(
    new_home: Callable[[LogConfig], Home],
    content: list[tuple[list[int], CompressionCodec, TimestampType]],
    rolls: set[int],
    start: int,
    stop: LastStop | None,
    interval: int,
) -> None:
    home = new_home(LogConfig(index_interval_bytes=interval, segment_index_bytes=2400))
    records: list[TimestampOffset] = []
    for number, (times, codec, kind) in enumerate(content):
        if number in rolls:
            home.log.roll(NOW)
        (offset,) = home.append(a_batch(timestamps=times, codec=codec, timestamp_type=kind), leader_epoch=number // 9)
        stored = [max(times)] * len(times) if kind is TimestampType.LOG_APPEND_TIME else times
        records += [TimestampOffset(time, offset + delta, number // 9) for delta, time in enumerate(stored)]
    if stop is not None:
        home.reopen(stop)
    start = min(start, home.log.log_end_offset)
    home.log.advance_log_start_offset(start)
    targets = {0, 1, 30, 59, 60, 61, 10**6 + 1, *(record.timestamp + by for record in records for by in (0, 1))}
    for target in targets:
        if target >= 0:
            visible = (record for record in records if record.timestamp >= target and record.offset >= start)
            assert find_by_timestamp(home.log, target) == next(visible, None)
    timed = [record for record in records if record.timestamp >= 0]
    newest = max(timed, key=lambda record: (record.timestamp, -record.offset)) if timed else None
    assert find_max_timestamp(home.log) == newest
    home.log.close()


def test_an_empty_log_has_no_record_at_any_time(home: Home) -> None:
    assert find_by_timestamp(home.log, 0) is None
    assert find_max_timestamp(home.log) is None
    home.append(a_batch(timestamps=[-1]))
    assert find_by_timestamp(home.log, 0) is None
    assert find_max_timestamp(home.log) is None


def test_the_first_of_several_records_with_the_largest_timestamp_is_the_one(home: Home) -> None:
    home.append(a_batch(timestamps=[1, 9, 9]))
    home.log.roll(NOW)
    home.append(a_batch(timestamps=[9, 3]))
    assert find_max_timestamp(home.log) == (9, 1, 0)


def test_staged_records_are_not_found(home: Home) -> None:
    home.append(a_batch(timestamps=[5]))
    home.stage(a_batch(timestamps=[50]))
    assert find_by_timestamp(home.log, 6) is None
    assert find_max_timestamp(home.log) == (5, 0, 0)


def lying(batch: Batch, time: int) -> Batch:
    """Return the batch with another largest timestamp in its header."""
    struct.pack_into(">q", batch.view, 35, time)
    struct.pack_into(">I", batch.view, 17, compute_crc(batch.view))
    return Batch(batch.view, read_header(batch.view))


def steps_of(search: Steps[TimestampOffset | None]) -> tuple[TimestampOffset | None, int]:
    """Return the result of a search and the number of its steps."""
    step_count = 0
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value, step_count
        step_count += 1


def test_headers_are_walked_in_steps(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=1 << 30))
    for number in range(1_000):
        home.append(a_batch(timestamps=[NOW + number]))
    record, step_count = steps_of(search_by_timestamp(home.log.segments, NOW + 999, home.log.log_start_offset))
    assert record == (NOW + 999, 999, 0)
    assert step_count >= 3


@pytest.mark.parametrize("steps", [0, 1, 5, 60])
def test_a_search_goes_on_when_the_log_loses_segments_and_grows(tmp_path: Path, steps: int) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(retention_ms=1, delete=True))
    for number in range(60):
        home.append(lying(a_batch(timestamps=[NOW]), NOW + 9_000))
        if number % 20 == 19:
            home.log.roll(NOW)
    search = search_by_timestamp(home.log.segments, NOW + 5, home.log.log_start_offset)
    for _ in range(steps):
        next(search)
    home.log.delete_old_segments(NOW + 20_000)
    (offset,) = home.append(a_batch(timestamps=[NOW + 7]))
    assert steps_of(search)[0] == (NOW + 7, offset, 0)


def test_a_moment_between_two_batches_costs_a_few_bytes_of_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    for number in range(20):
        home.append(a_batch(timestamps=[NOW + 10 * number + by for by in range(5)], value=bytes(20_000)))
    sizes: list[int] = []
    real = os.pread

    def pread(fd: int, size: int, position: int) -> bytes:
        sizes.append(size)
        return real(fd, size, position)

    monkeypatch.setattr(os, "pread", pread)
    assert find_by_timestamp(home.log, NOW + 95) == (NOW + 100, 50, 0)
    assert max(sizes) <= WALK_WINDOW_BYTES
    assert find_by_timestamp(home.log, NOW + 103) == (NOW + 103, 53, 0)
    assert max(sizes) > 100_000  # The search must read the records before the matching one.


def test_a_first_record_that_is_older_than_its_batch_says_is_passed_over(home: Home) -> None:
    batch = a_batch(timestamps=[NOW, NOW + 60])
    delta_at = RECORD_BATCH_OVERHEAD + 2  # The delta follows a length of one byte and the attributes.
    assert batch.view[delta_at] == 0
    batch.view[delta_at] = 1  # This is a delta of -1.
    home.append(batch)
    assert find_by_timestamp(home.log, NOW) == (NOW + 60, 1, 0)
    assert find_by_timestamp(home.log, NOW - 1) == (NOW - 1, 0, 0)


def test_a_first_record_that_cannot_be_read_is_told_as_before(home: Home) -> None:
    batch = a_batch(timestamps=[NOW])
    batch.view[RECORD_BATCH_OVERHEAD : RECORD_BATCH_OVERHEAD + 6] = b"\xff" * 6
    home.append(batch)
    with pytest.raises(DecodeError):
        find_by_timestamp(home.log, NOW)
