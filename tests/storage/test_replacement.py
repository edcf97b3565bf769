"""A cleaned segment replaces others, and a crash at any moment leaves either the old segments or the new one."""

import os
import shutil
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path

import pytest

from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogClosedError, StorageError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import SEGMENT_SUFFIXES, unlink_files
from minibroker_storage.recovery import recover_segment
from minibroker_storage.segment import LogSegment
from minibroker_storage.transaction_index import AbortedTxn, encode_aborted_txn
from tests.storage.helpers import (
    LOG,
    NOW,
    SMALL,
    Home,
    Moments,
    a_batch,
    abandon,
    batches_of,
    contents,
    filled,
    offsets_of,
    open_log,
    refusing,
)
from tests.storage.time_search import offset_of_time

COUNT = 100
END = 3 * COUNT
OLD = list(range(0, END, 3))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return filled(tmp_path, COUNT)


def cleaned(
    home: Home, numbers: Sequence[int], keep: Sequence[int], transactions: Sequence[AbortedTxn] = ()
) -> list[int]:
    """Write `.cleaned` files for segments given by number, with the batches at the offsets `keep`.

    Returns the base offsets of the segments.
    """
    bases = [home.log.segments[number].base_offset for number in numbers]
    scratch = home.path.parent / "scratch"
    scratch.mkdir()
    base_offsets = set(keep) & set(range(bases[0], home.log.segments[numbers[-1] + 1].base_offset))
    batches = [bytes(batch.buffer) for batch in batches_of(home.log) if batch.header.base_offset in base_offsets]
    (scratch / f"{bases[0]:020d}.log").write_bytes(b"".join(batches))
    segment = LogSegment.load(str(scratch), bases[0], home.config, FilePool(5), NOW)
    recover_segment(segment)
    segment.become_inactive()
    segment.close_files()
    if transactions:
        (scratch / f"{bases[0]:020d}.txnindex").write_bytes(b"".join(map(encode_aborted_txn, transactions)))
    for path in scratch.iterdir():
        path.rename(home.path / f"{path.name}.cleaned")
    scratch.rmdir()
    return bases


def test_readers_see_the_cleaned_segment_at_once(home: Home) -> None:
    bases = cleaned(home, [1, 2], [45, 48, 120])
    end = home.log.segments[3].base_offset
    home.log.replace_segments(bases[0], bases)
    expected = [offset for offset in OLD if not bases[0] <= offset < end or offset in {45, 48, 120}]
    assert offsets_of(home.log) == expected
    assert [segment.base_offset for segment in home.log.segments][:3] == [0, bases[0], end]
    assert offset_of_time(home.log, NOW + 10 * 17) == expected[expected.index(48) + 1]
    home.append(a_batch(3))
    home.reopen(LastStop.CLEAN)
    assert offsets_of(home.log) == [*expected, END]


def test_what_was_replaced_is_left_to_be_unlinked_and_pinned_readers_read_on(home: Home) -> None:
    bases = cleaned(home, [0, 1], [0])
    data = home.log.read(0, 1 << 20)
    expected = data.read()
    with data.handle as fd:
        home.log.replace_segments(0, bases)
        assert os.pread(fd, data.size, data.position) == expected
    with pytest.raises(LogClosedError):
        data.read()
    deleted = home.log.take_deleted_files()
    assert sorted(Path(path).name for path in deleted) == sorted(
        f"{base:020d}{suffix}.deleted" for base in bases for suffix in (".log", ".index", ".timeindex")
    )
    assert sorted(deleted) == sorted(str(home.file(name)) for name in home.names(".deleted"))
    assert home.log.take_deleted_files() == []
    assert f"{bases[1]:020d}.snapshot" not in home.names(".snapshot")
    unlink_files([*deleted, *deleted])
    assert home.names(".deleted") == []
    assert offsets_of(home.log)[0] == 0


def test_a_segment_that_lost_all_records_is_passed_over(home: Home) -> None:
    bases = cleaned(home, [0, 1], [])
    first = home.log.segments[2].base_offset
    home.log.replace_segments(0, bases)
    assert home.log.segments[0].size == 0
    assert offsets_of(home.log, 0) == [offset for offset in OLD if offset >= first]
    home.log.close()
    for last_stop in LastStop:
        home.open(last_stop=last_stop)
        assert (home.log.log_start_offset, home.log.log_end_offset) == (0, END)
        assert offsets_of(home.log, 0) == [offset for offset in OLD if offset >= first]
        home.crash()


def test_the_aborted_transactions_of_a_cleaned_segment_are_those_it_came_with(home: Home) -> None:
    transaction = AbortedTxn(9, 45, 48, 49)
    bases = cleaned(home, [1, 2], [45, 48, 120], [transaction])
    home.log.replace_segments(bases[0], bases)
    assert home.log.aborted_transactions(0, END) == [transaction]
    assert home.reopen(LastStop.CLEAN).aborted_transactions(0, END) == [transaction]


def test_cleaned_files_without_good_indexes_get_new_ones(home: Home) -> None:
    bases = cleaned(home, [1, 2], [offset for offset in OLD if offset % 2])
    for suffix, data in ((".index", None), (".timeindex", b"\xff" * 24)):
        path = home.file(f"{bases[0]:020d}{suffix}.cleaned")
        path.unlink()
        if data is not None:
            path.write_bytes(data)
    home.log.replace_segments(bases[0], bases)
    index = home.log.segments[1].offset_index
    assert index.entries > 3
    assert index.file.path in {str(path) for path in home.path.iterdir()}
    assert home.log.segments[1].max_timestamp > NOW


@pytest.mark.parametrize("wrong", ["a gap", "the active one", "nothing", "a truncated one", "unknown"])
def test_segments_that_are_not_there_any_more_are_not_replaced(home: Home, wrong: str) -> None:
    bases = cleaned(home, [1, 2], [45])
    active = home.log.segments[-1].base_offset
    end = END
    if wrong == "a truncated one":
        end = bases[1] - 1
        home.log.truncate_to(end, NOW)
    chosen = {
        "a gap": [bases[0], home.log.segments[-1].base_offset],
        "the active one": [segment.base_offset for segment in home.log.segments[1:]],
        "nothing": [],
        "a truncated one": bases,
        "unknown": [bases[0], bases[0] + 1],
    }
    with pytest.raises(StorageError, match="to replace"):
        home.log.replace_segments(bases[0], chosen[wrong])
    assert home.names(".cleaned") == []
    assert offsets_of(home.log) == [offset for offset in OLD if offset + 2 < end]
    assert (home.log.segments[-1].base_offset == active) == (wrong != "a truncated one")


def test_a_rename_that_fails_before_anything_is_replaced_undoes_all(home: Home) -> None:
    bases = cleaned(home, [1, 2], [45])
    before = {name: data for name, data in contents(home.path).items() if not name.endswith(".cleaned")}
    calls = count()
    with refusing("rename", when=lambda *_: next(calls) == 2), pytest.raises(OSError, match="No space left"):
        home.log.replace_segments(bases[0], bases)
    assert contents(home.path) == before
    assert offsets_of(home.log) == OLD


# Crashes


def is_tidy(directory: Path) -> bool:
    return not any(path.name.endswith((".cleaned", ".swap", ".deleted", ".tmp")) for path in directory.iterdir())


@pytest.mark.parametrize("last_stop", LastStop)
@pytest.mark.parametrize("with_transactions", [False, True])
def test_a_crash_at_any_rename_leaves_the_old_segments_or_the_cleaned_one(
    home: Home,
    tmp_path: Path,
    last_stop: LastStop,
    with_transactions: bool,  # noqa: FBT001 - a parameter
) -> None:
    transactions = [AbortedTxn(9, 45, 48, 49)] if with_transactions else []
    bases = cleaned(home, [1, 2, 3], [45, 48, 150], transactions)
    end = home.log.segments[4].base_offset
    assert end > 150
    if with_transactions:
        home.file(f"{bases[1]:020d}.txnindex").write_bytes(encode_aborted_txn(AbortedTxn(1, bases[1], bases[1], 0)))
    new = [offset for offset in OLD if not bases[0] <= offset < end or offset in {45, 48, 150}]
    with Moments(home.path, tmp_path / "copies") as copies:
        home.log.replace_segments(bases[0], bases)
    copies.append(home.path)
    assert len(copies) > 12
    outcomes = []
    for number, copy in enumerate(copies):
        if number % 5 == 2:  # Interrupt the start as well.
            with Moments(copy, copy.parent / "second") as second_copies:
                log = open_log(copy, SMALL, last_stop)
        else:
            second_copies = []
            log = open_log(copy, SMALL, last_stop)
        outcomes.append(offsets_of(log))
        assert outcomes[-1] in (OLD, new)
        assert log.log_end_offset == END
        assert is_tidy(copy)
        if outcomes[-1] == new and with_transactions and last_stop is not LastStop.CRASHED:
            assert log.aborted_transactions(45, END) == transactions
        abandon(log)
        for second in second_copies:
            log = open_log(second, SMALL, last_stop)
            assert offsets_of(log) == outcomes[-1]
            assert is_tidy(second)
            abandon(log)
    changes = sum(earlier != later for earlier, later in pairwise(outcomes))
    assert (outcomes[0], changes, outcomes[-1]) == (OLD, 1, new)


def test_old_segments_behind_the_cleaned_records_come_back_together_or_not_at_all(home: Home, tmp_path: Path) -> None:
    """The cleaned log ends before its last sources begin. A crash may leave those, but never an older source alone."""
    bases = cleaned(home, [0, 1, 2, 3], [6])
    end = home.log.segments[4].base_offset
    with Moments(home.path, tmp_path / "copies") as copies:
        home.log.replace_segments(0, bases)
    outcomes = set()
    for copy in copies:
        log = open_log(copy, SMALL, LastStop.KILLED)
        offsets = [offset for offset in offsets_of(log, 0) if offset < end]
        if offsets != [offset for offset in OLD if offset < end]:
            assert offsets[0] == 6
            first_old = offsets[1] if len(offsets) > 1 else end
            assert offsets[1:] == [offset for offset in OLD if first_old <= offset < end]
            assert first_old in {*bases, end}
            outcomes.add(first_old)
        abandon(log)
    assert len(outcomes) > 2


def test_two_cleaned_segments_are_swapped_in_one_after_the_other(home: Home, tmp_path: Path) -> None:
    first = cleaned(home, [0, 1], [0, 60])
    second = cleaned(home, [2, 3], [90, 150])
    middle, end = home.log.segments[2].base_offset, home.log.segments[4].base_offset
    with Moments(home.path, tmp_path / "copies") as copies:
        home.log.replace_segments(first[0], first)
        home.log.replace_segments(second[0], second)
    remaining = [offset for offset in OLD if offset >= end]
    half = [0, 60, *(offset for offset in OLD if offset >= middle)]
    offsets = [0, 60, 90, 150]
    assert middle <= offsets[2] < offsets[3] < end
    for copy in copies:
        log = open_log(copy, SMALL, LastStop.KILLED)
        assert offsets_of(log) in (OLD, half, [*offsets, *remaining])
        abandon(log)
    assert offsets_of(home.log) == [*offsets, *remaining]


def test_a_log_that_is_gone_with_its_directory_leaves_nothing_to_do(home: Home) -> None:
    bases = cleaned(home, [0], [0])
    home.log.delete()
    with pytest.raises(LogClosedError):
        home.log.replace_segments(0, bases)
    shutil.rmtree(home.log.directory)
    assert not home.file(LOG).exists()
    assert SEGMENT_SUFFIXES[0] == ".log"
