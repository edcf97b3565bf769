"""A cleaning on files alone: what is read, what is written, and when it gives up."""

import errno
import os
from itertools import pairwise
from pathlib import Path
from struct import iter_unpack
from types import SimpleNamespace
from typing import Any

import pytest

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner import CleaningAbortedError, CleaningPlan, CleaningResult, remove_cleaned_files
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.transaction_index import AbortedTxn, decode_all, encode_aborted_txn
from tests.storage.cleaning import (
    DAY_MS,
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
from tests.storage.helpers import NOW, contents

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory for segments."""
    return tmp_path / "orders-0"


def cleaned(plan: CleaningPlan) -> CleaningResult:
    """Clean, through JSON as between processes, and put the result in place."""
    result = CleaningResult.from_json(clean(CleaningPlan.from_json(plan.to_json())).to_json())
    put_in_place(result)
    assert not list(Path(plan.directory).glob("*.cleaned"))
    return result


def name_of(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


# What stays


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


def test_keys_of_the_dirty_part_remove_records_of_the_clean_part(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"), (B, b"1"))], 2: [batch(2, (A, b"2"))], 3: []})
    result = cleaned(plan_for(home, 3, first_dirty_offset=2))
    assert result.stats.map_messages_read == 1
    assert pairs_of(entries_in(home)) == [(1, B, b"1"), (2, A, b"2")]


def test_the_active_segment_is_not_touched(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: [batch(1, (A, b"2")), batch(2, (A, b"3"))]})
    before = contents(home)[name_of(1, ".log")]
    cleaned(plan_for(home, 1))
    assert contents(home)[name_of(1, ".log")] == before
    assert [offset for offset, _, _ in pairs_of(entries_in(home))] == [0, 1, 2]


def test_tombstones_outlive_their_records_by_delete_retention(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: [batch(1, (A, None), (B, b"1"))], 3: []})
    cleaned(plan_for(home, 3))
    assert pairs_of(entries_in(home)) == [(1, A, None), (2, B, b"1")]
    cleaned(plan_for(home, 3, now_ms=NOW + DAY_MS - 1))
    assert pairs_of(entries_in(home)) == [(1, A, None), (2, B, b"1")]
    cleaned(plan_for(home, 3, now_ms=NOW + DAY_MS))
    assert pairs_of(entries_in(home)) == [(2, B, b"1")]


def test_a_tombstone_that_becomes_old_enough_while_dirty_still_waits_from_its_first_cleaning_on(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, None), timestamps=[NOW - 10 * DAY_MS])], 1: []})
    cleaned(plan_for(home, 1))
    assert entries_in(home)[0].header.delete_horizon_ms == NOW + DAY_MS


@pytest.mark.parametrize("magic", [0, 1])
def test_old_tombstones_go_by_the_time_of_their_segment(home: Path, magic: int) -> None:
    messages = [
        build_message_set([NewRecord(key, None, NOW if magic else -1)], magic=magic, base_offset=offset)
        for offset, key in enumerate([A, B])
    ]
    write_segments(home, {0: [bytes(messages[0])], 1: [bytes(messages[1])], 2: []})
    plan = plan_for(home, 2, legacy_delete_horizon_ms=NOW, segment_bytes=1)
    cleaned(plan)
    assert pairs_of(entries_in(home)) == [(1, B, None)]


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_all_formats_are_cleaned_in_one_log(home: Path, codec: CompressionCodec) -> None:
    def messages(magic: int, base_offset: int) -> bytes:
        records = [NewRecord(key, b"v%d" % magic, NOW if magic else -1) for key in (A, B, C)]
        return bytes(build_message_set(records, magic=magic, base_offset=base_offset, codec=codec))

    write_segments(home, {0: [messages(0, 0)], 3: [messages(1, 3), batch(6, (B, b"v2"), codec=codec)], 7: []})
    assert cleaned(plan_for(home, 7)).stats.messages_read == 7
    assert pairs_of(entries_in(home)) == [(3, A, b"v1"), (5, C, b"v1"), (6, B, b"v2")]
    assert [one.header.magic for one in entries_in(home)] == ([1, 1, 2] if codec is CompressionCodec.NONE else [1, 2])


# Transactions


def transaction(base_offset: int, *pairs: tuple[bytes, bytes], producer_id: int = 1) -> Entry:
    return batch(
        base_offset, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=base_offset, is_transactional=True
    )


def test_aborted_records_neither_stay_nor_remove_others(home: Path) -> None:
    write_segments(
        home,
        {
            0: [batch(0, (A, b"1")), transaction(1, (A, b"aborted")), marker(2, 1, commit=False)],
            3: [transaction(3, (B, b"1")), marker(4, 1, commit=True)],
            5: [],
        },
    )
    (home / name_of(0, ".txnindex")).write_bytes(encode_aborted_txn(AbortedTxn(1, 1, 2, 3)))
    cleaned(plan_for(home, 5))
    assert pairs_of(entries_in(home)) == [(0, A, b"1"), (3, B, b"1")]
    assert [one.header.base_offset for one in entries_in(home)] == [0, 2, 3, 4]
    assert decode_all((home / name_of(0, ".txnindex")).read_bytes()) == [AbortedTxn(1, 1, 2, 3)]


def test_an_aborted_transaction_is_forgotten_with_its_records(home: Path) -> None:
    write_segments(home, {0: [transaction(0, (A, b"aborted")), marker(1, 1, commit=False)], 2: []})
    (home / name_of(0, ".txnindex")).write_bytes(encode_aborted_txn(AbortedTxn(1, 0, 1, 2)))
    cleaned(plan_for(home, 2))
    assert entries_in(home)[0].header.delete_horizon_ms is None
    cleaned(plan_for(home, 2))
    assert entries_in(home)[0].header.delete_horizon_ms == NOW + DAY_MS
    assert not (home / name_of(0, ".txnindex")).exists()
    cleaned(plan_for(home, 2, now_ms=NOW + DAY_MS))
    assert entries_in(home) == []


def test_an_abort_marker_in_a_later_segment_counts(home: Path) -> None:
    write_segments(home, {0: [transaction(0, (A, b"aborted"))], 1: [], 2: [marker(2, 1, commit=False)]})
    torn = encode_aborted_txn(AbortedTxn(1, 0, 2, 3)) + b"\0\0\0"
    (home / name_of(2, ".txnindex")).write_bytes(torn)
    cleaned(plan_for(home, 2))
    assert [one.header.base_offset for one in entries_in(home)] == [2]


@pytest.mark.parametrize("second", [2, 1])
def test_an_older_aborted_transaction_of_the_same_producer_does_not_count_for_the_dirty_part(
    home: Path, second: int
) -> None:
    """The dirty part begins with a segment, and in the midst of one."""
    entries = [
        transaction(0, (A, b"aborted")),
        marker(1, 1, commit=False),
        transaction(2, (B, b"1")),
        marker(3, 1, commit=True),
        batch(4, (A, b"1")),
    ]
    write_segments(home, {0: entries[:second], second: entries[second:], 5: []})
    index = home / name_of(0 if second == 2 else 1, ".txnindex")
    index.write_bytes(encode_aborted_txn(AbortedTxn(1, 0, 1, 2)))
    assert cleaned(plan_for(home, 5, first_dirty_offset=2)).stats.map_entries == 2


def test_a_transaction_index_that_is_none_is_refused(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: []})
    (home / name_of(0, ".txnindex")).write_bytes(b"\xff" * 34)
    with pytest.raises(CorruptIndexError):
        clean(plan_for(home, 1))


# The map


def test_a_map_that_fills_up_ends_the_dirty_part(home: Path) -> None:
    write_segments(
        home, {0: [batch(0, (A, b"1"), (A, b"2"), (B, b"1"), (C, b"1"), (A, b"3"))], 5: [batch(5, (A, b"4"))], 6: []}
    )
    result = cleaned(plan_for(home, 6, max_map_entries=2))
    assert result.next_dirty_offset == 3
    assert pairs_of(entries_in(home)) == [(1, A, b"2"), (2, B, b"1"), (3, C, b"1"), (4, A, b"3"), (5, A, b"4")]
    again = cleaned(plan_for(home, 6, first_dirty_offset=3, max_map_entries=2))
    assert again.next_dirty_offset == 5  # a full map does not take a key that it knows either
    assert pairs_of(entries_in(home)) == [(2, B, b"1"), (3, C, b"1"), (4, A, b"3"), (5, A, b"4")]
    again = cleaned(plan_for(home, 6, first_dirty_offset=5, max_map_entries=2))
    assert again.next_dirty_offset == 6
    assert pairs_of(entries_in(home)) == [(2, B, b"1"), (3, C, b"1"), (5, A, b"4")]


def test_a_segment_behind_the_end_of_the_map_is_not_written(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"), (B, b"1"))], 2: [batch(2, (C, None))], 3: []})
    result = cleaned(plan_for(home, 3, max_map_entries=2))
    assert result.next_dirty_offset == 2
    assert result.groups == ()
    assert entries_in(home)[1].header.delete_horizon_ms is None


@pytest.mark.parametrize("end", [7, 50])
def test_offsets_that_are_missing_at_a_segments_end_are_clean(home: Path, end: int) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"))], 5: [batch(5, (A, b"2"))], end: []})
    assert cleaned(plan_for(home, end)).next_dirty_offset == end


def test_a_log_without_any_key_becomes_empty(home: Path) -> None:
    write_segments(home, {0: [batch(0, (None, b"1"))], 1: [batch(1, (None, b"2"))], 2: []})
    result = cleaned(plan_for(home, 2))
    assert result.stats.invalid_messages_read == 2
    assert contents(home)[name_of(0, ".log")] == b""
    assert sorted(path.name for path in home.glob("*.log")) == [name_of(0, ".log"), name_of(2, ".log")]


# Groups


def sizes(*values: int) -> dict[int, list[Entry]]:
    """Return segments of so many bytes, one record each."""
    overhead = len(batch(0, (b"key0", b"")).data)
    return {
        offset: [batch(offset, (b"key%d" % offset, b"v" * (size - overhead)))] for offset, size in enumerate(values)
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"segment_bytes": 1000}, [[0, 1, 2, 3, 4]]),
        ({"segment_bytes": 300}, [[0, 1, 2], [3, 4]]),
        ({"segment_bytes": 299}, [[0, 1], [2, 3], [4]]),
        ({"segment_bytes": 10}, [[0], [1], [2], [3], [4]]),
    ],
)
def test_small_neighbors_become_one_segment(home: Path, changes: dict[str, Any], expected: list[list[int]]) -> None:
    write_segments(home, {**sizes(100, 100, 100, 100, 100), 5: []})
    result = clean(plan_for(home, 5, **changes))
    assert [group.source_base_offsets for group in result.groups] == [group for group in expected if len(group) > 1]
    put_in_place(result)
    assert [offset for offset, _, _ in pairs_of(entries_in(home))] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("offset_index", "time_index"), [(40, 1), (1, 40)])
def test_groups_are_limited_by_their_indexes(home: Path, offset_index: int, time_index: int) -> None:
    write_segments(home, {**sizes(100, 100, 100), 3: []})
    plan = plan_for(home, 3, segment_index_bytes=80)
    segments = tuple(s._replace(offset_index_size=offset_index, time_index_size=time_index) for s in plan.segments)
    assert [group.source_base_offsets for group in clean(plan._replace(segments=segments)).groups] == [[0, 1]]


def test_groups_do_not_span_more_offsets_than_an_index_can_hold(home: Path) -> None:
    far = 2**31 + 10
    write_segments(
        home, {0: [batch(0, (A, b"1"))], 10: [batch(10, (B, b"1"))], 20: [], far: [batch(far, (C, b"1"))], far + 1: []}
    )
    result = cleaned(plan_for(home, far + 1))
    assert [group.source_base_offsets for group in result.groups] == [[0, 10, 20]]
    assert [offset for offset, _, _ in pairs_of(entries_in(home))] == [0, 10, far]


def test_a_cleaned_segment_has_the_time_of_its_newest_source(home: Path) -> None:
    write_segments(home, {**sizes(100, 100, 100), 3: []}, modified_ms=NOW)
    cleaned(plan_for(home, 3))
    for suffix in (".log", ".index", ".timeindex"):
        assert (home / name_of(0, suffix)).stat().st_mtime_ns == (NOW + 2000) * 1_000_000


def test_a_segment_that_loses_nothing_is_left_alone(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1"), (B, b"1"))], 2: []})
    before = (home / name_of(0, ".log")).stat()
    result = cleaned(plan_for(home, 2))
    assert (result.groups, result.next_dirty_offset) == ((), 2)
    assert (home / name_of(0, ".log")).stat().st_ino == before.st_ino


# The indexes


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
    assert result.groups[0].size == sum(len(one.data) for one in entries[30:])
    offsets = list(iter_unpack(">ii", (home / name_of(0, ".index")).read_bytes()))
    assert all(later > earlier for earlier, later in pairwise(offsets))
    assert [30 + position // len(entries[0].data) for _, position in offsets] == [offset for offset, _ in offsets]


# Giving up


def test_the_active_producers_of_the_plan_keep_their_last_batch(home: Path) -> None:
    one = batch(0, (A, b"1"), producer_id=4, producer_epoch=1, base_sequence=17)
    write_segments(home, {0: [one, batch(1, (A, b"2"))], 2: []})
    cleaned(plan_for(home, 2, producers=(ActiveProducer(4, 0, 1),)))
    first, second = entries_in(home)
    assert (first.header.producer_id, first.header.last_sequence, first.header.record_count) == (4, 17, 0)
    assert pairs_of([second]) == [(1, A, b"2")]


def two_segments(home: Path) -> CleaningPlan:
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: [batch(1, (A, b"2"))], 2: []})
    return plan_for(home, 2)


def test_a_damaged_entry_is_refused_and_nothing_is_left_behind(home: Path) -> None:
    one = bytearray(batch(1, (A, b"2")).data)
    one[-1] ^= 1
    write_segments(home, {0: [batch(0, (A, b"1"))], 1: [bytes(one)], 2: []})
    before = contents(home)
    with pytest.raises(CorruptRecordError, match="byte 0 of 70"):
        clean(plan_for(home, 2))
    assert contents(home) == before


def test_a_torn_entry_is_refused(home: Path) -> None:
    write_segments(home, {0: [batch(0, (A, b"1")), batch(1, (A, b"2")).data[:-1]], 2: []})
    with pytest.raises(CorruptRecordError, match="byte 70 of 139"):
        clean(plan_for(home, 2))


def test_a_segment_that_was_removed_meanwhile_ends_the_cleaning(home: Path) -> None:
    plan = two_segments(home)
    (home / name_of(1, ".log")).unlink()
    before = contents(home)
    with pytest.raises(CleaningAbortedError, match="gone"):
        clean(plan)
    assert contents(home) == before


def test_a_segment_that_was_replaced_meanwhile_ends_the_cleaning(home: Path) -> None:
    plan = two_segments(home)
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


def test_a_log_that_was_deleted_meanwhile_ends_the_cleaning(home: Path) -> None:
    plan = two_segments(home)
    home.rename(home.with_name("orders-0-delete"))
    with pytest.raises(CleaningAbortedError, match="gone"):
        clean(plan)


def test_a_directory_that_is_renamed_while_it_is_cleaned_is_cleaned_where_it_is(home: Path) -> None:
    plan = two_segments(home)
    target = home.with_name("orders-0.12-delete")

    def rename_once() -> None:
        if home.exists():
            home.rename(target)

    clean(plan, check_done=rename_once)
    assert not home.exists()
    assert (target / name_of(0, ".log.cleaned")).exists()


def test_the_caller_can_end_a_cleaning(home: Path) -> None:
    plan = two_segments(home)
    before = contents(home)

    def stop() -> None:
        raise CleaningAbortedError("enough")

    with pytest.raises(CleaningAbortedError, match="enough"):
        clean(plan, check_done=stop)
    assert contents(home) == before


def test_a_full_disk_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = two_segments(home)
    before = contents(home)

    def full(fd: int, *_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        clean(plan)
    assert contents(home) == before


def test_leftovers_of_an_interrupted_cleaning_are_removed_first(home: Path) -> None:
    plan = two_segments(home)
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

    # Not in the module `time` itself, which other threads of this process use as well.
    time = SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0])
    monkeypatch.setattr("minibroker_storage.cleaner.clean.time", time)
    result = clean(plan_for(home, 4, io_bytes_per_second=1_000_000.0, segment_bytes=1 << 30))
    moved = result.stats.map_bytes_read + result.stats.bytes_read + result.stats.bytes_written
    assert sum(slept) == pytest.approx(moved / 1_000_000, abs=0.06)
    assert result.stats.seconds == pytest.approx(sum(slept))
