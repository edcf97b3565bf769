"""The rule for index entries: a segment of a broker and one whose indexes are written at once come to the same."""

from pathlib import Path
from random import Random

import pytest

from minibroker_storage.config import LogConfig
from minibroker_storage.files import FilePool
from minibroker_storage.index_writer import BufferedIndexWriter
from minibroker_storage.segment import LogSegment

INTERVAL = 500


def batches(seed: int) -> list[tuple[int, int, int]]:
    """Size, last offset and largest timestamp of some batches."""
    random = Random(seed)
    found: list[tuple[int, int, int]] = []
    offset = 7
    for _ in range(200):
        offset += random.randrange(1, 4)
        found.append((random.randrange(62, 900), offset, random.randrange(10_000)))
    return found


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
        buffered.note(size, last_offset, timestamp, last_offset)
        assert buffered.is_full == segment.is_full
    segment.commit()
    segment.become_inactive()
    buffered.close_indexes()
    assert buffered.end == segment.size
    assert len(buffered.offset_index.data) > 8 * 5
    assert bytes(buffered.offset_index.data) == (tmp_path / f"{7:020d}.index").read_bytes()
    assert bytes(buffered.time_index.data) == (tmp_path / f"{7:020d}.timeindex").read_bytes()
    segment.close_files()


def test_a_full_index_in_memory_takes_no_more_but_the_last_time() -> None:
    writer = BufferedIndexWriter(0, index_interval_bytes=0, segment_index_bytes=36)
    for number in range(1, 10):
        writer.note(100, number, number, number)
    assert (len(writer.offset_index.data), len(writer.time_index.data)) == (32, 24)
    writer.close_indexes()
    writer.close_indexes()
    assert (len(writer.offset_index.data), len(writer.time_index.data)) == (32, 36)


def test_the_next_entry_is_due_behind_the_interval() -> None:
    writer = BufferedIndexWriter(0, index_interval_bytes=100, segment_index_bytes=80)
    due = [writer.index_due_after]
    for number in range(4):
        writer.note(60, number, -1, number)
        due.append(writer.index_due_after)
    assert due == [100, 100, 100, 220, 220]
    assert bytes(writer.offset_index.data) == bytes.fromhex("0000000200000078")
