"""Reads from any offset of a log."""

import os
import struct
from pathlib import Path

import pytest

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import BatchHeader, TimestampType
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import OffsetOutOfRangeError
from tests.storage.helpers import NOW, Home, a_batch, batches_of, filled, offsets_of


@pytest.mark.parametrize("is_reopened", [False, True])
def test_reading_from_mid_batch_returns_the_whole_batch(tmp_path: Path, *, is_reopened: bool) -> None:
    home = filled(tmp_path)
    if is_reopened:
        home.reopen(LastStop.CLEAN)
    assert len(home.log.segments) > 1
    for offset in range(home.log.log_end_offset):
        assert offsets_of(home.log, offset) == list(range(offset - offset % 3, 180, 3))


def test_a_read_at_the_end_is_empty_and_one_behind_it_is_out_of_range(home: Home) -> None:
    home.append(a_batch(3))
    assert home.log.read(3, 1000).size == 0
    assert home.log.read(3, 1000).read() == b""
    with pytest.raises(OffsetOutOfRangeError) as raised:
        home.log.read(4, 1000)
    assert (raised.value.offset, raised.value.log_start_offset, raised.value.log_end_offset) == (4, 0, 3)
    with pytest.raises(OffsetOutOfRangeError):
        home.log.read(-1, 1000)


def test_max_bytes_cuts_the_last_batch_and_one_batch_is_returned_whole_if_asked(home: Home) -> None:
    home.append(a_batch(), a_batch(), a_batch())
    size = a_batch().size
    log = home.log
    assert log.read(0, 2 * size + 5).size == 2 * size + 5
    assert log.read(0, 5).size == size
    assert log.read(0, 0).size == size
    assert log.read(0, 5, min_one_batch=False).size == 5
    assert log.read(0, 0, min_one_batch=False).size == 0
    assert log.read(2, 5).read() == log.read(0, 10000).read()[2 * size :]
    reopened = home.reopen(LastStop.CLEAN)
    assert (reopened.read(1, 5).size, reopened.read(1, 2 * size).size) == (size, 2 * size)


def test_a_range_that_is_cut_ends_with_a_whole_batch_where_the_index_knows_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "indexed", LogConfig(index_interval_bytes=0))  # Every batch except the first has an entry.
    home.append(*(a_batch(value=b"v" * length) for length in range(10, 40)))
    sizes = [batch.header.size_in_bytes for batch in batches_of(home.log)]
    for start in range(30):
        for max_bytes in range(0, sum(sizes) + 50, 17):
            data = home.log.read(start, max_bytes).size
            whole_sizes = [sum(sizes[start:end]) for end in range(start + 1, 31)]
            assert data == max([size for size in whole_sizes if size <= max_bytes], default=whole_sizes[0])


def test_a_reader_that_goes_on_reads_as_one_that_begins_there(tmp_path: Path) -> None:
    home = Home(tmp_path / "indexed", LogConfig(index_interval_bytes=100, segment_bytes=4000))
    home.append(*(a_batch(1 + number % 3, value=b"v" * (number * 7 % 90)) for number in range(200)))
    log = home.reopen(LastStop.CLEAN)  # Reopening drops the remembered positions.
    for max_bytes in (1, 300, 1000):
        offset = 0
        while offset < log.log_end_offset:
            data = log.read(offset, max_bytes)
            batches = [batch.header for batch in iter_batches(data.read())]
            for header in batches[:3]:  # Reads start at and within the batches.
                for asked in range(header.base_offset, header.last_offset + 1):
                    assert log.read(asked, max_bytes).position == data.position + found_before(batches, header)
            offset = batches[-1].last_offset + 1


def found_before(headers: list[BatchHeader], header: BatchHeader) -> int:
    """Return the size of the batches before `header`."""
    return sum(item.size_in_bytes for item in headers if item.base_offset < header.base_offset)


def test_the_end_offset_hides_its_batch_and_what_follows(tmp_path: Path) -> None:
    log = filled(tmp_path).log
    size = batches_of(log)[0].header.size_in_bytes
    second = log.segments[1].base_offset
    for number in range(60):
        start = number * 3
        segment = max(base for base in (segment.base_offset for segment in log.segments) if base <= start)
        end_of_segment = min([base for base in (s.base_offset for s in log.segments) if base > start] + [180])
        for end, until in ((start, start), (start + 3, start + 3), (start + 4, start + 3), (start + 30, start + 30)):
            data = log.read(start, 1 << 20, end_offset=end)
            assert data.size == (min(until, end_of_segment) - start) // 3 * size, (start, end, segment)
    assert log.read(0, 1 << 20, end_offset=10**9).size == log.segments[0].size
    assert second > 0


def test_a_read_stays_within_one_segment(tmp_path: Path) -> None:
    log = filled(tmp_path).log
    assert [log.read(segment.base_offset, 1 << 20).size for segment in log.segments] == [
        segment.size for segment in log.segments
    ]


def test_a_gap_is_skipped_within_a_segment_and_to_the_next(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=100))
    home.append(a_batch(5), a_batch(5))
    home.log.truncate_to(7, NOW)  # The second batch is cut, which removes offsets 5 and 6.
    assert home.append(a_batch(3)) == [7]
    home.log.roll(NOW)
    home.append(a_batch(5))
    home.log.truncate_to(12, NOW)
    home.log.roll(NOW)
    home.append(a_batch(1))
    assert [home.log.read(offset, 1).read()[:8] for offset in (5, 6, 7, 9)] == [struct.pack(">q", 7)] * 4
    home.log.truncate_to(10, NOW)
    assert home.append(a_batch(4)) == [10]
    assert offsets_of(home.log) == [0, 7, 10]


@pytest.mark.parametrize("last_stop", LastStop)
def test_an_empty_segment_within_the_log_is_passed_over(home: Home, last_stop: LastStop) -> None:
    home.append(a_batch(5), a_batch(5))
    home.log.roll(NOW)
    home.append(a_batch(5))
    home.log.roll(NOW)
    home.append(a_batch(5))
    home.log.close()
    home.file("00000000000000000010.log").write_bytes(b"")  # Compaction removed every record.
    log = home.open(last_stop=last_stop)
    assert [segment.base_offset for segment in log.segments] == [0, 10, 15]
    assert offsets_of(log) == [0, 5, 15]
    assert offsets_of(log, 12) == [15]


def test_a_reader_at_the_tail_touches_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(a_batch() for _ in range(50)))
    monkeypatch.setattr(os, "pread", None)
    assert home.log.read(50, 1000).size == 0
    assert home.log.read(49, 1000).size == a_batch().size
    assert home.log.read(20, 100_000).size == 30 * a_batch().size


def test_log_append_time_batches_come_back_as_they_went_in(home: Home) -> None:
    home.append(a_batch(2, timestamp_type=TimestampType.LOG_APPEND_TIME, timestamps=[5, 9]))
    (batch,) = batches_of(home.log)
    assert [record.timestamp for record in batch] == [9, 9]
