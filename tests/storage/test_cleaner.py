"""Cleaning of files: what is read, what is written, and when a cleaning is aborted."""

import os
from itertools import pairwise
from pathlib import Path
from struct import iter_unpack
from types import SimpleNamespace

import pytest

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner import CleaningAbortedError, CleaningPlan, CleaningResult, remove_cleaned_files
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.transaction_index import AbortedTxn, encode_aborted_txn
from tests.storage.cleaning import (
    Entry,
    batch,
    entries_in,
    entry,
    marker,
    pairs_of,
    plan_for,
    put_in_place,
    write_segments,
)
from tests.storage.helpers import NOW, contents, refusing

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory for segments."""
    return tmp_path / "orders-0"


def cleaned(plan: CleaningPlan) -> CleaningResult:
    """Run a plan, passing data as JSON like between processes, and swap in the result."""
    result = CleaningResult.from_json(clean(CleaningPlan.from_json(plan.to_json())).to_json())
    put_in_place(result)
    assert not list(Path(plan.directory).glob("*.cleaned"))
    return result


def name_of(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


# Retained records


def test_the_newest_value_of_each_key_stays_at_its_offset(home: Path) -> None:
    write_segments(
        home,
        {
            0: [batch(0, (A, b"1"), (B, b"1")), batch(2, (A, b"2"))],
            3: [batch(3, (A, b"3"), (C, b"1"))],
            5: [batch(5, (B, b"not cleaned yet"))],
        },
    )
    result = cleaned(plan_for(home, 5))
    assert pairs_of(entries_in(home)) == [(1, B, b"1"), (3, A, b"3"), (4, C, b"1"), (5, B, b"not cleaned yet")]
    assert (result.first_dirty_offset, result.next_dirty_offset) == (0, 5)
    stats = result.stats
    assert (stats.messages_read, stats.messages_written, stats.map_messages_read, stats.map_entries) == (5, 3, 5, 3)
    assert stats.bytes_read == stats.map_bytes_read == sum(len(batch(0, (A, b"1")).data) for _ in range(3)) + 2 * 9
    assert stats.bytes_written == sum(group.size for group in result.groups)
    assert stats.max_map_entries == 1000


# Transactions


def transaction(base_offset: int, *pairs: tuple[bytes, bytes], producer_id: int = 1) -> Entry:
    return batch(
        base_offset, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=base_offset, is_transactional=True
    )


def test_an_abort_marker_in_a_later_segment_counts(home: Path) -> None:
    write_segments(home, {0: [transaction(0, (A, b"aborted"))], 1: [], 2: [marker(2, 1, commit=False)]})
    torn = encode_aborted_txn(AbortedTxn(1, 0, 2, 3)) + b"\0\0\0"
    (home / name_of(2, ".txnindex")).write_bytes(torn)
    cleaned(plan_for(home, 2))
    assert [entry.header.base_offset for entry in entries_in(home)] == [2]


def test_a_transaction_index_that_is_none_is_refused(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: []})
    (home / name_of(0, ".txnindex")).write_bytes(b"\xff" * 34)
    with pytest.raises(CorruptIndexError):
        clean(plan_for(home, 1))


# The offset map


def test_a_map_that_fills_up_ends_the_dirty_part(home: Path) -> None:
    write_segments(
        home, {0: [batch(0, (A, b"1"), (A, b"2"), (B, b"1"), (C, b"1"), (A, b"3"))], 5: [batch(5, (A, b"4"))], 6: []}
    )
    result = cleaned(plan_for(home, 6, max_map_entries=2))
    assert result.next_dirty_offset == 3
    assert pairs_of(entries_in(home)) == [(1, A, b"2"), (2, B, b"1"), (3, C, b"1"), (4, A, b"3"), (5, A, b"4")]
    again = cleaned(plan_for(home, 6, first_dirty_offset=3, max_map_entries=2))
    assert again.next_dirty_offset == 5  # A full map rejects even a key it contains.
    assert pairs_of(entries_in(home)) == [(2, B, b"1"), (3, C, b"1"), (4, A, b"3"), (5, A, b"4")]
    again = cleaned(plan_for(home, 6, first_dirty_offset=5, max_map_entries=2))
    assert again.next_dirty_offset == 6
    assert pairs_of(entries_in(home)) == [(2, B, b"1"), (3, C, b"1"), (5, A, b"4")]


@pytest.mark.parametrize("end", [7, 50])
def test_offsets_that_are_missing_at_a_segments_end_are_clean(home: Path, end: int) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 5: [batch(5, (A, b"2"))], end: []})
    assert cleaned(plan_for(home, end)).next_dirty_offset == end


# Groups


def sizes(*values: int) -> dict[int, list[Entry]]:
    """Return segments of the given sizes with one record each."""
    overhead = len(batch(0, (b"key0", b"")).data)
    return {
        offset: [batch(offset, (b"key%d" % offset, b"v" * (size - overhead)))] for offset, size in enumerate(values)
    }


def test_a_segment_that_loses_nothing_is_left_alone(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"), (B, b"1"))], 2: []})
    before = (home / name_of(0, ".log")).stat()
    result = cleaned(plan_for(home, 2))
    assert (result.groups, result.next_dirty_offset) == ((), 2)
    assert (home / name_of(0, ".log")).stat().st_ino == before.st_ino


# Indexes


def test_the_indexes_are_those_of_a_log_that_got_the_same_batches(home: Path) -> None:
    entries = [batch(number, (b"%03d" % number, b"v" * 30), timestamps=[NOW + number % 7]) for number in range(40)]
    write_segments(home, {0: entries[:20], 20: entries[20:], 40: []})
    cleaned(plan_for(home, 40, index_interval_bytes=250))
    size = len(entries[0].data)
    offsets = list(iter_unpack(">ii", (home / name_of(0, ".index")).read_bytes()))
    times = list(iter_unpack(">qi", (home / name_of(0, ".timeindex")).read_bytes()))
    every = 250 // size + 1
    assert offsets == [(number, number * size) for number in range(every, 40, every)]
    assert times == [(NOW + every, every), (NOW + 6, 6)]


def test_a_full_index_only_becomes_sparser(home: Path) -> None:
    entries = [batch(number, (b"%03d" % number, b"v"), timestamps=[NOW + number]) for number in range(40)]
    write_segments(home, {0: entries[:20], 20: entries[20:], 40: []})
    cleaned(plan_for(home, 40, index_interval_bytes=0, segment_index_bytes=48))
    assert len((home / name_of(0, ".index")).read_bytes()) == 48
    times = list(iter_unpack(">qi", (home / name_of(0, ".timeindex")).read_bytes()))
    assert len(times) == 4
    assert times[-1] == (NOW + 39, 39)


def test_large_segments_are_read_and_written_in_parts(home: Path) -> None:
    value = os.urandom(300_000)
    entries = [batch(number, (b"%d" % (number % 30), value)) for number in range(60)]
    write_segments(home, {0: entries, 60: []})
    result = cleaned(plan_for(home, 60, segment_bytes=1 << 30))
    assert entries_in(home) == entries[30:]
    assert result.groups[0].size == sum(len(entry.data) for entry in entries[30:])
    offsets = list(iter_unpack(">ii", (home / name_of(0, ".index")).read_bytes()))
    assert all(later > earlier for earlier, later in pairwise(offsets))
    assert [30 + position // len(entries[0].data) for _, position in offsets] == [offset for offset, _ in offsets]


# Aborted cleanings


@pytest.fixture
def plan(home: Path) -> CleaningPlan:
    """Return a plan that removes one of two records."""
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: [batch(1, (A, b"2"))], 2: []})
    return plan_for(home, 2)


@pytest.mark.parametrize(("end", "size"), [(b"3", 70), (b"", 69)], ids=["damaged", "torn"])
def test_a_bad_entry_is_refused_and_nothing_is_left_behind(home: Path, end: bytes, size: int) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: [batch(1, (A, b"2")).data[:-1] + end], 2: []})
    before = contents(home)
    with pytest.raises(CorruptRecordError, match=f"byte 0 of {size}"):
        clean(plan_for(home, 2))
    assert contents(home) == before


def test_a_segment_that_was_removed_meanwhile_ends_the_cleaning(home: Path, plan: CleaningPlan) -> None:
    (home / name_of(1, ".log")).unlink()
    before = contents(home)
    with pytest.raises(CleaningAbortedError, match="gone"):
        clean(plan)
    assert contents(home) == before


def test_a_segment_that_was_replaced_meanwhile_ends_the_cleaning(home: Path, plan: CleaningPlan) -> None:
    path = home / name_of(0, ".log")
    copy = path.read_bytes()
    path.rename(home / "kept")
    path.write_bytes(copy)
    with pytest.raises(CleaningAbortedError, match="another file"):
        clean(plan)
    path.write_bytes(b"")
    (home / "kept").rename(path)
    os.truncate(path, 5)
    with pytest.raises(CleaningAbortedError, match="another file"):
        clean(plan)


def test_a_log_that_was_deleted_meanwhile_ends_the_cleaning(home: Path, plan: CleaningPlan) -> None:
    home.rename(home.with_name("orders-0-delete"))
    with pytest.raises(CleaningAbortedError, match="gone"):
        clean(plan)


def test_a_directory_that_is_renamed_while_it_is_cleaned_is_cleaned_where_it_is(home: Path, plan: CleaningPlan) -> None:
    target = home.with_name("orders-0.12-delete")

    def rename_once() -> None:
        if home.exists():
            home.rename(target)

    clean(plan, check_done=rename_once)
    assert not home.exists()
    assert (target / name_of(0, ".log.cleaned")).exists()


def test_the_caller_can_end_a_cleaning(home: Path, plan: CleaningPlan) -> None:
    before = contents(home)

    def stop() -> None:
        raise CleaningAbortedError("enough")

    with pytest.raises(CleaningAbortedError, match="enough"):
        clean(plan, check_done=stop)
    assert contents(home) == before


def test_a_full_disk_leaves_nothing_behind(home: Path, plan: CleaningPlan) -> None:
    before = contents(home)
    with refusing("fsync"), pytest.raises(OSError, match="No space left"):
        clean(plan)
    assert contents(home) == before


def test_leftovers_of_an_interrupted_cleaning_are_removed_first(home: Path, plan: CleaningPlan) -> None:
    for base_offset in (0, 7):
        (home / name_of(base_offset, ".log.cleaned")).write_bytes(b"left over")
    cleaned(plan)
    assert pairs_of(entries_in(home)) == [(1, A, b"2")]


def test_cleaned_files_are_removed_all_or_by_segment(home: Path) -> None:
    home.mkdir()
    names = [name_of(base, suffix + ".cleaned") for base in (0, 5, 9) for suffix in (".log", ".index")]
    for name in [*names, name_of(0, ".log")]:
        (home / name).touch()
    remove_cleaned_files(str(home), only=5)
    assert sorted(contents(home)) == sorted([*names[:2], *names[4:], name_of(0, ".log")])
    remove_cleaned_files(str(home), keep={9})
    assert sorted(contents(home)) == sorted([*names[4:], name_of(0, ".log")])
    remove_cleaned_files(str(home))
    assert sorted(contents(home)) == [name_of(0, ".log")]


def test_reading_and_writing_keep_to_their_rate(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = b"v" * 1_500_000
    write_segments(home, {0: [entry(build_batch([NewRecord(A, value, NOW)], base_offset=n)) for n in range(4)], 4: []})
    slept: list[float] = []
    clock = [100.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    # The module `time` itself is not patched, because other threads of this process use it.
    time = SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0])
    monkeypatch.setattr("minibroker_storage.cleaner.clean.time", time)
    result = clean(plan_for(home, 4, io_bytes_per_second=1_000_000.0, segment_bytes=1 << 30))
    moved = result.stats.map_bytes_read + result.stats.bytes_read + result.stats.bytes_written
    assert sum(slept) == pytest.approx(moved / 1_000_000, abs=0.06)
    assert result.stats.seconds == pytest.approx(sum(slept))
