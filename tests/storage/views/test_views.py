"""Views of a log, compared with the log's own reads and searches."""

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from minibroker_storage.config import LogConfig
from minibroker_storage.log import Log
from minibroker_storage.views.look_ups import LookUp, RecordingOffsetIndex, RecordingTimeIndex, find_offset, find_time
from minibroker_storage.views.snapshot import (
    aborted_transactions,
    batch_page,
    find_segment,
    log_view,
    offset_entries,
    producers,
    read_batch,
    time_entries,
)
from tests.storage.helpers import NOW, SMALL, Home, a_batch, marker, sequenced
from tests.storage.time_search import find_by_timestamp

LARGE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=1 << 20)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log of several segments, with irregular timestamps, compressed batches, transactions and gaps."""
    home = Home(tmp_path / "orders-0", SMALL)
    chance = random.Random(7)
    time = NOW
    for number in range(60):
        time += chance.randrange(-500, 2_000)
        times = [time + chance.randrange(0, 300) for _ in range(chance.randrange(1, 6))]
        codec = chance.choice([CompressionCodec.NONE, CompressionCodec.GZIP])
        home.append(a_batch(len(times), timestamps=times, codec=codec))
        if number % 20 == 10:
            home.append(sequenced(0, 2, producer_id=number, is_transactional=True))
            home.append(marker(producer_id=number, commit=number == 10))
    return home.log


def test_the_view_of_a_log_has_its_segments_and_marks(log: Log) -> None:
    view = log_view(log)
    assert (view.log_start_offset, view.high_watermark, view.log_end_offset) == (
        0,
        log.high_watermark,
        log.log_end_offset,
    )
    assert view.segment_count == len(view.segments) == len(log.segments) > 3
    assert [segment.base_offset for segment in view.segments] == [segment.base_offset for segment in log.segments]
    assert [segment.end_offset for segment in view.segments[:-1]] == [
        segment.base_offset for segment in view.segments[1:]
    ]
    assert view.segments[-1].end_offset == log.log_end_offset
    assert sum(segment.size for segment in view.segments) == view.size
    assert [segment.is_active for segment in view.segments].count(True) == 1
    for segment in view.segments:
        assert Path(view.directory, segment.file).stat().st_size == segment.size
    assert log_view(log, 1, 2).segments == view.segments[1:3]
    assert asdict(view)["leader_epochs"] == ({"epoch": 0, "start_offset": 0},)


def test_pages_of_batches_are_all_batches(log: Log) -> None:
    expected = [
        (batch.header.base_offset, batch.header.last_offset, batch.header.size_in_bytes)
        for segment in log.segments
        for batch in iter_batches(Path(segment.log.path).read_bytes())
    ]
    for limit in (1, 7, 1000):
        batches: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = batch_page(log, offset, limit)
            assert len(page.batches) <= limit
            batches += page.batches
            offset = page.next_offset
        assert [(item.base_offset, item.last_offset, item.size) for item in batches] == expected
        indexed = {
            (segment.base_offset, entry.position) for segment in log.segments for entry in offset_entries(segment)
        }
        assert {(item.segment, item.position) for item in batches if item.is_indexed} == indexed
    assert batch_page(log, log.log_end_offset).batches == ()


def test_index_entries_are_those_of_the_files(log: Log) -> None:
    segment = log.segments[0]
    assert find_segment(log, segment.base_offset) is segment
    assert find_segment(log, 1) is None
    entries = offset_entries(segment)
    assert [entry.position for entry in entries] == [
        segment.offset_index.entry(slot).position for slot in range(segment.offset_index.entries)
    ]
    assert [entry.slot for entry in offset_entries(segment, 1, 2, 2)] == [1, 3]
    assert [entry.timestamp for entry in time_entries(segment)] == [
        segment.time_index.entry(slot).timestamp for slot in range(segment.time_index.entries)
    ]


def test_producers_and_aborted_transactions_are_shown(log: Log) -> None:
    views = producers(log)
    assert [view.producer_id for view in views] == [10, 30, 50]
    assert producers(log, 10, 1) == views[1:2]
    assert all(view.transaction_begins is None for view in views)
    assert [view.producer_id for view in aborted_transactions(log)] == [30, 50]
    last = aborted_transactions(log)[-1]
    assert aborted_transactions(log, last.last_offset) == [last]


def test_a_look_up_by_offset_finds_what_the_log_finds(log: Log) -> None:
    """The steps end at the batch that the broker would read, and each byte range is within its file."""
    for offset in range(log.log_end_offset):
        result = find_offset(log, offset)
        assert result.found is not None
        data = log.read(offset, 1)
        segment = find_segment(log, result.found.segment)
        assert segment is not None
        assert (data.handle, data.position) == (segment.log, result.found.position)
        batch = next(iter(iter_batches(data.read())))
        assert (batch.header.base_offset, batch.header.size_in_bytes) == (result.found.offset, result.found.size)
        check_ranges(log, result)


def check_ranges(log: Log, result: LookUp) -> None:
    for step in result.steps:
        assert step.text.endswith(".")
        if step.file:
            assert 0 <= step.start <= max(step.end, step.start) <= Path(log.directory, step.file).stat().st_size


def test_a_look_up_outside_of_the_log_says_so(log: Log) -> None:
    end = log.log_end_offset
    for offset in (-1, end, end + 5):
        result = find_offset(log, offset)
        assert (result.found, [step.kind for step in result.steps]) == (None, ["bounds"])
    assert "where the next record goes" in find_offset(log, end).steps[0].text


def test_a_look_up_by_time_finds_what_the_log_finds(log: Log) -> None:
    chance = random.Random(3)
    for timestamp in (0, NOW, NOW - 1, 2**60, *(NOW + chance.randrange(-1000, 60_000) for _ in range(150))):
        result = find_time(log, timestamp)
        expected = find_by_timestamp(log, timestamp)
        found = None if result.found is None else (result.found.timestamp, result.found.offset)
        assert found == (None if expected is None else (expected.timestamp, expected.offset))
        check_ranges(log, result)
        assert (result.steps[-1].kind == "none") == (expected is None)


@pytest.mark.parametrize("entries", [0, 1, 5, 511, 512, 513, 3000])
def test_the_probes_are_the_windows_that_the_search_reads(
    tmp_path: Path, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read of the file is a probe with the same slots."""
    home = Home(tmp_path / "orders-0", LARGE)
    chance = random.Random(entries)
    index = home.log.segments[0].offset_index
    times = home.log.segments[0].time_index
    offset = position = timestamp = 0
    for _ in range(entries):
        offset += chance.choice([1, 2, 500])
        position += chance.choice([70, 90, 4000])
        timestamp += chance.choice([1, 1000])
        index.stage(offset, position)
        times.maybe_stage(timestamp, offset)
    index.commit()
    times.commit()
    import os  # noqa: PLC0415 - patched here alone

    real = os.pread
    for key in (0, 1, offset // 2, offset - 1, offset, offset + 1, *(chance.randrange(offset + 2) for _ in range(40))):
        for watched, size, plain in ((RecordingOffsetIndex(index), 8, index), (RecordingTimeIndex(times), 12, times)):
            reads: list[tuple[int, int]] = []

            def pread(fd: int, count: int, at: int, reads: list[tuple[int, int]] = reads) -> bytes:
                reads.append((at, count))
                return real(fd, count, at)

            with monkeypatch.context() as patch:
                patch.setattr(os, "pread", pread)
                entry = watched.lookup(key)
            assert entry == plain.lookup(key)
            assert reads == [(each.first * size, (each.end - each.first) * size) for each in watched.probes]


def test_the_bytes_of_a_batch_are_those_of_the_file(log: Log) -> None:
    for batch in batch_page(log, 0, 20).batches:
        data = read_batch(log, batch.segment, batch.position)
        assert data is not None
        assert next(iter(iter_batches(data))).header.base_offset == batch.base_offset
        assert len(data) == batch.size
        short = read_batch(log, batch.segment, batch.position, 70)
        assert short == data[:70]
    assert read_batch(log, 1, 0) is None
    size = log.segments[0].size
    for position in (-5, 3, size - 1, size, size + 5, 2**70):
        found = read_batch(log, 0, position)
        assert found is not None
        assert len(found) <= size
