"""The offset and time index files: their bytes, search and limits.

An active segment and one whose indexes are written at its end must get the same index entries.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_storage.config import LogConfig
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.files import FilePool
from minibroker_storage.index_file import IndexFile
from minibroker_storage.index_writer import BufferedIndexWriter
from minibroker_storage.offset_index import OffsetIndex, OffsetPosition
from minibroker_storage.segment import LogSegment
from minibroker_storage.time_index import TimeIndex
from tests.storage.helpers import Disk

CREATE = os.O_RDWR | os.O_CREAT
Index = TypeVar("Index", OffsetIndex, TimeIndex)


def offset_index(path: Path, base_offset: int = 0, max_bytes: int = 10 << 20) -> OffsetIndex:
    return OffsetIndex(FilePool(10).handle(str(path / "index"), CREATE), base_offset, max_bytes)


def time_index(path: Path, base_offset: int = 0, max_bytes: int = 10 << 20) -> TimeIndex:
    return TimeIndex(FilePool(10).handle(str(path / "timeindex"), CREATE), base_offset, max_bytes)


def filled(index: Index, *entries: tuple[int, int]) -> Index:
    stage = index.stage if isinstance(index, OffsetIndex) else index.maybe_stage
    for entry in entries:
        stage(*entry)
    index.commit()
    return index


def test_an_offset_index_of_500_bytes_is_rounded_to_496_and_a_time_index_to_492(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path, max_bytes=500), time_index(tmp_path, max_bytes=500)
    offsets.preallocate()
    times.preallocate()
    assert (tmp_path / "index").stat().st_size == 496
    assert (tmp_path / "timeindex").stat().st_size == 492


def test_for_3550_the_entry_3528_is_found_and_the_scan_begins_at_2310272(tmp_path: Path) -> None:
    index = filled(offset_index(tmp_path), (3400, 2200000), (3528, 2310272), (3655, 2400000))
    assert index.lookup(3550) == (3528, 2310272)
    assert index.lookup(3528) == (3528, 2310272)
    assert index.lookup(3527) == (3400, 2200000)
    assert index.lookup(10**12) == (3655, 2400000)


def test_the_last_indexed_batch_before_a_position_is_found(tmp_path: Path) -> None:
    assert offset_index(tmp_path).entry_at_or_below(10**9).position == 0
    index = filled(offset_index(tmp_path), *((10 * slot, 5000 * slot) for slot in range(1, 900)))
    assert index.entry_at_or_below(4999).position == 0
    assert index.entry_at_or_below(5000).position == 5000
    assert index.entry_at_or_below(5000 * 567 - 1).position == 5000 * 566
    assert index.entry_at_or_below(5000 * 567).position == 5000 * 567
    assert index.entry_at_or_below(10**9).position == 5000 * 899


def test_for_1609087040523_the_entry_1609087040112_is_found(tmp_path: Path) -> None:
    index = filled(time_index(tmp_path), (1609087039000, 5000), (1609087040112, 5146), (1609087040524, 5200))
    assert index.lookup(1609087040523) == (1609087040112, 5146)
    assert filled(offset_index(tmp_path), (5046, 3111375), (5150, 3200000)).lookup(5146) == (5046, 3111375)


def test_entries_are_relative_big_endian_integers(tmp_path: Path) -> None:
    filled(offset_index(tmp_path, 100), (150, 4242))
    time_index(tmp_path, 100).maybe_append(77, 150)
    assert (tmp_path / "index").read_bytes() == bytes.fromhex("00000032 00001092")
    assert (tmp_path / "timeindex").read_bytes() == bytes.fromhex("00000000 0000004d 00000032")


def test_below_the_first_entry_lies_the_start_of_the_segment(tmp_path: Path) -> None:
    index = filled(offset_index(tmp_path, 100), (150, 4242))
    assert index.lookup(149) == index.lookup(0) == OffsetPosition(100, 0)
    assert offset_index(tmp_path, 9).lookup(500) == OffsetPosition(9, 0)
    assert time_index(tmp_path, 100).lookup(5) == (-1, 100)


def test_staged_entries_are_found_only_once_they_are_written(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.stage(5, 60)
    assert index.lookup(9) == (0, 0)
    assert index.entries == 0
    index.commit()
    assert index.lookup(9) == (5, 60)


def test_a_rolled_back_index_is_as_it_was(tmp_path: Path) -> None:
    index = filled(offset_index(tmp_path), (5, 60))
    state = index.state
    filled(index, (9, 90))
    index.stage(12, 120)
    index.rollback(state)
    assert (index.entries, index.last_offset, index.last_position) == (1, 5, 60)
    filled(index, (10, 100))
    assert [index.entry(slot) for slot in range(2)] == [(5, 60), (10, 100)]


def test_the_offset_index_is_full_at_its_last_slot_and_the_time_index_one_before(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path, max_bytes=24), time_index(tmp_path, max_bytes=36)
    fullness = []
    for number in range(1, 4):
        offsets.stage(number, number * 100)
        times.maybe_stage(number, number)
        fullness.append((offsets.is_full, times.is_full))
    assert fullness == [(False, False), (False, True), (True, True)]
    times.commit()
    times.maybe_append(9, 9)  # One slot is reserved for the last timestamp at roll and close.
    assert times.entries == 4


def test_a_time_index_takes_larger_timestamps_only(tmp_path: Path) -> None:
    index = filled(time_index(tmp_path), (10, 1), (10, 2), (9, 3), (11, 4), (-1, 5))
    assert [index.entry(slot) for slot in range(index.entries)] == [(10, 1), (11, 4)]
    assert (index.last_timestamp, index.last_offset) == (11, 4)


def test_trimming_and_loading_keep_the_entries(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 10)
    index.preallocate()
    filled(index, (15, 60), (25, 160))
    index.trim()
    assert (tmp_path / "index").stat().st_size == 16
    loaded = offset_index(tmp_path, 10)
    loaded.load()
    assert (loaded.entries, loaded.last_offset, loaded.last_position) == (2, 25, 160)


@pytest.mark.parametrize("entries", [0, 1, 2, 511, 512, 513, 1500])
def test_an_index_that_was_not_trimmed_still_tells_its_entries(tmp_path: Path, entries: int) -> None:
    index, times = offset_index(tmp_path), time_index(tmp_path)
    for file in (index, times):
        file.preallocate()
    filled(index, *((number, number * 10) for number in range(1, entries + 1)))
    filled(times, *((number, number) for number in range(1, entries + 1)))
    loaded: tuple[IndexFile[Any], IndexFile[Any]] = (offset_index(tmp_path), time_index(tmp_path))
    for again in loaded:
        again.load()
        assert again.entries == entries


def test_truncation_drops_entries_at_and_behind_the_offset(tmp_path: Path) -> None:
    entries = [(offset, offset * 100) for offset in range(10, 100, 10)]
    for target, kept in ((50, 4), (51, 5), (5, 0), (1000, 9), (90, 8)):
        index, times = offset_index(tmp_path), time_index(tmp_path)
        for file in (index, times):
            file.clear()
        filled(index, *entries)
        for offset, timestamp in entries:
            times.maybe_append(timestamp, offset)
        for file in (index, times):
            file.truncate_to(target)
            assert file.entries == kept
        assert index.last_offset == (entries[kept - 1][0] if kept else 0)
        assert times.last_timestamp == (entries[kept - 1][1] if kept else -1)
        assert (tmp_path / "index").stat().st_size == 10 << 20


@pytest.mark.parametrize(
    ("make", "content", "reason"),
    [
        (offset_index, b"\0" * 7 + b"\1", "position 1"),
        (offset_index, b"1234567", "multiple of 8"),
        (offset_index, struct.pack(">ii", -1, 50), "last offset 99"),
        (offset_index, struct.pack(">ii", 100, 50), "last offset 200"),
        (offset_index, struct.pack(">ii", 5, 0), "position 0"),
        (offset_index, struct.pack(">ii", 5, 999), "position 999"),
        (offset_index, struct.pack(">ii", 5, -3), "position -3"),
        (time_index, b"1234567", "multiple of 12"),
        (time_index, struct.pack(">qiqi", 50, 1, 40, 2), "below the first"),
        (time_index, struct.pack(">qi", 50, -7), "last offset 93"),
        (time_index, struct.pack(">qi", 50, 100), "last offset 200"),
    ],
)
def test_an_index_that_cannot_be_is_told(
    tmp_path: Path, make: Callable[[Path, int], OffsetIndex | TimeIndex], content: bytes, reason: str
) -> None:
    index = make(tmp_path, 100)
    Path(index.file.path).write_bytes(content)
    with pytest.raises(CorruptIndexError, match=reason):  # noqa: PT012 - either of the two may notice
        index.load()
        index.sanity_check(1 if reason == "position 1" else 500, 200)


def test_time_entries_for_an_empty_log_are_told(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    index.maybe_append(5, 5)
    with pytest.raises(CorruptIndexError, match="empty log"):
        index.sanity_check(0, None)


def test_a_failed_write_leaves_the_written_entries(tmp_path: Path, disk: Disk) -> None:
    index = filled(offset_index(tmp_path), (5, 60))
    state = index.state
    disk.room = 3
    index.stage(6, 70)
    with pytest.raises(OSError, match="space"):
        index.commit()
    index.rollback(state)
    disk.room = None
    filled(index, (7, 80))
    assert [index.entry(slot) for slot in range(index.entries)] == [(5, 60), (7, 80)]


def test_every_offset_of_an_uneven_index_is_found(tmp_path: Path) -> None:
    entries = [(number if number < 1500 else 1500 + 7 * (number - 1500), 100 * number) for number in range(1, 2100)]
    index = filled(offset_index(tmp_path), *entries)
    times = filled(time_index(tmp_path), *(entry[::-1] for entry in entries))
    for below, above in zip(entries, [*entries[1:], (6000, 0)], strict=True):
        for offset in range(below[0], above[0]):
            assert index.lookup(offset) == below
        assert times.lookup(below[1]) == times.lookup(below[1] + 99)
        assert times.lookup(below[1]) == below[::-1]


steps = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50_000)), max_size=40)


@given(steps=steps, repeat=st.sampled_from([1, 1, 30, 90]), targets=st.lists(st.integers(0, 2**31), max_size=5))
def test_a_lookup_finds_what_a_search_through_all_entries_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], repeat: int, targets: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp()
    (path / "index").unlink(missing_ok=True)
    (path / "timeindex").unlink(missing_ok=True)
    entries: list[tuple[int, int]] = []
    offset = position = 0
    for by_offset, by_position in steps * repeat:
        offset += by_offset * (1 if len(entries) % 700 < 350 else 40)  # Uneven offsets make guesses wrong.
        position += by_position
        entries.append((offset, position))
    index = filled(offset_index(path), *entries)
    times = filled(time_index(path), *(entry[::-1] for entry in entries))
    near = [offset + by for offset, _ in entries[:: max(1, len(entries) // 50)] for by in (-1, 0, 1)]
    for target in [*targets, *near]:
        below = bisect_right(entries, (target, 2**40))
        assert index.lookup(target) == (entries[below - 1] if below else (0, 0))
        by_time = bisect_right(entries, target, key=lambda entry: entry[1])
        assert times.lookup(target) == ((entries[by_time - 1][::-1]) if by_time else (-1, 0))
    for target in [*targets, *(position + by for _, position in entries[::7] for by in (-1, 0, 1))]:
        below = bisect_right(entries, target, key=lambda entry: entry[1])
        assert index.entry_at_or_below(target) == (entries[below - 1] if below else (0, 0))
        above = bisect_right(entries, target - 1, key=lambda entry: entry[1])
        assert index.offset_at_or_above(target) == (entries[above][0] if above < len(entries) else None)
    for file in (index, times):
        file.file.close()


INTERVAL = 500


def batches(seed: int) -> list[tuple[int, int, int]]:
    """Return sizes, last offsets and largest timestamps of some batches."""
    random = Random(seed)
    results: list[tuple[int, int, int]] = []
    offset = 7
    for _ in range(200):
        offset += random.randrange(1, 4)
        results.append((random.randrange(62, 900), offset, random.randrange(10_000)))
    return results


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("index_bytes", [10_000, 240])
def test_indexes_in_memory_hold_what_a_brokers_segment_writes(tmp_path: Path, seed: int, index_bytes: int) -> None:
    config = LogConfig(index_interval_bytes=INTERVAL, segment_index_bytes=index_bytes)
    segment = LogSegment.create(str(tmp_path), 7, config, FilePool(10), 0)
    buffered = BufferedIndexWriter(7, index_interval_bytes=INTERVAL, segment_index_bytes=index_bytes)
    for size, last_offset, timestamp in batches(seed):
        if segment.is_full:
            break
        segment.stage(memoryview(bytes(size)), last_offset, last_offset, timestamp, last_offset)
        buffered.add_batch(size, last_offset, timestamp, last_offset)
        assert buffered.is_full == segment.is_full
    segment.commit()
    segment.become_inactive()
    buffered.close_indexes()
    assert buffered.end == segment.size
    assert len(buffered.offset_entries) > 8 * 5
    assert bytes(buffered.offset_entries) == (tmp_path / f"{7:020d}.index").read_bytes()
    assert bytes(buffered.time_entries) == (tmp_path / f"{7:020d}.timeindex").read_bytes()
    segment.close_files()


def test_a_full_index_in_memory_takes_no_more_but_the_last_time() -> None:
    writer = BufferedIndexWriter(0, index_interval_bytes=0, segment_index_bytes=36)
    for number in range(1, 10):
        writer.add_batch(100, number, number, number)
    assert (len(writer.offset_entries), len(writer.time_entries)) == (32, 24)
    writer.close_indexes()
    writer.close_indexes()
    assert (len(writer.offset_entries), len(writer.time_entries)) == (32, 36)


def test_the_next_entry_is_due_behind_the_interval() -> None:
    writer = BufferedIndexWriter(0, index_interval_bytes=100, segment_index_bytes=80)
    due = [writer.index_due_after]
    for number in range(4):
        writer.add_batch(60, number, -1, number)
        due.append(writer.index_due_after)
    assert due == [100, 100, 100, 220, 220]
    assert bytes(writer.offset_entries) == bytes.fromhex("0000000200000078")
