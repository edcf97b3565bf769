"""The torture's look at files: what it must find wrong."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import stamp
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.torture.disk import check_partition
from tests.torture.ledger import TortureError

BATCHES = 6
RECORDS = 3
TIME = 1_700_000_000_000
SIZE = 61 + RECORDS * 12


def write_segment(directory: Path, base: int, *, trimmed: bool = True) -> int:
    """A segment of batches with index entries for every one but the first; returns the offset behind it."""
    log, offsets, times = bytearray(), bytearray(), bytearray()
    for number in range(BATCHES):
        first = base + number * RECORDS
        data = build_batch([NewRecord(None, b"value", TIME + first + by) for by in range(RECORDS)])
        stamp(data, first, 0)
        if number:
            offsets += struct.pack(">ii", first + RECORDS - 1 - base, len(log))
            times += struct.pack(">qi", TIME + first + RECORDS - 1, first + RECORDS - 1 - base)
        log += data
    stem = directory / f"{base:020d}"
    stem.with_suffix(".log").write_bytes(log)
    stem.with_suffix(".index").write_bytes(offsets + bytes(0 if trimmed else 80))
    stem.with_suffix(".timeindex").write_bytes(times + bytes(0 if trimmed else 120))
    return base + BATCHES * RECORDS


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two closed segments."""
    write_segment(tmp_path, write_segment(tmp_path, 0))
    return tmp_path


def patch(path: Path, position: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:-size])


FIRST, LAST = f"{0:020d}", f"{BATCHES * RECORDS:020d}"
DAMAGE: dict[str, Callable[[Path], object]] = {
    "a batch is changed": lambda home: patch(home / f"{FIRST}.log", 70, b"\xff"),
    "an earlier log is cut": lambda home: cut(home / f"{FIRST}.log", 1),
    "an earlier log lacks a batch": lambda home: cut(home / f"{FIRST}.log", SIZE),
    "a segment is gone": lambda home: os.replace(home / f"{LAST}.log", home / f"{100:020d}.log"),
    "segments overlap": lambda home: shutil.copy(home / f"{LAST}.log", home / f"{20:020d}.log"),
    "an offset of another batch": lambda home: patch(home / f"{FIRST}.index", 3, b"\x06"),
    "a position within a batch": lambda home: patch(home / f"{FIRST}.index", 7, b"\x01"),
    "entries in disorder": lambda home: patch(home / f"{FIRST}.index", 0, struct.pack(">ii", 17, 5 * SIZE)),
    "a time that is too late": lambda home: patch(home / f"{FIRST}.timeindex", 0, struct.pack(">q", TIME + 7)),
    "a time that is too early": lambda home: patch(home / f"{FIRST}.timeindex", 0, struct.pack(">q", TIME + 4)),
    "a time of a later batch": lambda home: patch(home / f"{FIRST}.timeindex", 8, struct.pack(">i", 8)),
}


def test_two_sound_segments_are_sound(partition: Path) -> None:
    assert check_partition(partition, is_compacted=False, was_killed=False)["segments seen on disk"] == 2


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_after_a_kill_and_after_a_stop(partition: Path, damage: str, *, killed: bool) -> None:
    DAMAGE[damage](partition)
    with pytest.raises((TortureError, CorruptRecordError)):
        check_partition(partition, is_compacted=False, was_killed=killed)


def test_a_kill_may_leave_a_torn_end_and_short_indexes_and_a_stop_may_not(partition: Path) -> None:
    cut(partition / f"{LAST}.log", 1)
    with pytest.raises(TortureError, match=r"time index entry|no batch begins there"):
        check_partition(partition, is_compacted=False, was_killed=True)  # the last batch has an entry
    cut(partition / f"{LAST}.index", 8)
    cut(partition / f"{LAST}.timeindex", 12)
    assert check_partition(partition, is_compacted=False, was_killed=True)["torn ends"] == 1
    with pytest.raises(TortureError, match=f"{SIZE - 1} bytes at its end"):
        check_partition(partition, is_compacted=False, was_killed=False)


def test_indexes_are_trimmed_and_end_with_the_largest_time_after_a_stop(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, trimmed=False)
    check_partition(tmp_path, is_compacted=False, was_killed=True)
    with pytest.raises(TortureError, match="but entries for"):
        check_partition(tmp_path, is_compacted=False, was_killed=False)
    write_segment(tmp_path, 0)
    cut(tmp_path / f"{FIRST}.timeindex", 12)
    check_partition(tmp_path, is_compacted=False, was_killed=True)
    with pytest.raises(TortureError, match="the largest timestamp"):
        check_partition(tmp_path, is_compacted=False, was_killed=False)


def test_gaps_are_right_in_a_compacted_log_only(tmp_path: Path) -> None:
    write_segment(tmp_path, write_segment(tmp_path, 0) + 5)
    check_partition(tmp_path, is_compacted=True, was_killed=False)
    with pytest.raises(TortureError, match="follows"):
        check_partition(tmp_path, is_compacted=False, was_killed=False)


@pytest.mark.parametrize("leftover", [f"{FIRST}.log.swap", f"{FIRST}.index.cleaned"])
def test_while_segments_are_being_swapped_they_may_overlap(partition: Path, leftover: str) -> None:
    write_segment(partition, 9)
    (partition / leftover).touch()
    found = check_partition(partition, is_compacted=True, was_killed=True)
    assert found["interrupted swaps"] == 1


def test_a_set_of_old_messages_has_one_index_entry_for_its_last_message(tmp_path: Path) -> None:
    plain = build_message_set([NewRecord(None, b"value", TIME + by) for by in range(4)], magic=1)
    stem = tmp_path / FIRST
    stem.with_suffix(".log").write_bytes(plain)
    stem.with_suffix(".index").write_bytes(struct.pack(">ii", 3, len(plain) // 4))
    stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", TIME + 3, 3))
    assert check_partition(tmp_path, is_compacted=False, was_killed=False)["segments seen on disk"] == 1
    stem.with_suffix(".index").write_bytes(struct.pack(">ii", 4, len(plain) // 4))
    with pytest.raises(TortureError, match="points to"):
        check_partition(tmp_path, is_compacted=False, was_killed=False)
