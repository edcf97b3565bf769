"""Transactions in a log: the last stable offset, aborted transactions and their index, and recovery of both."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.files import FilePool
from minibroker_storage.transaction_index import AbortedTxn, TransactionIndex, decode_all, encode_aborted_txn
from tests.storage.helpers import LOG, NOW, Batch, Disk, Home, a_batch, abandon, marker, offsets_of, open_log, sequenced

WRITTEN_BY_KAFKA = Path(__file__).parent / "data" / "kafka-3.9.1" / "orders-0" / "00000000000000000221.txnindex"
TXN_INDEX = "00000000000000000000.txnindex"


class Producer:
    """A transactional producer and its coordinator."""

    def __init__(self, producer_id: int) -> None:
        self.id = producer_id
        self.sequence = 0

    def batch(self, count: int = 1) -> Batch:
        batch = sequenced(self.sequence, count, producer_id=self.id, is_transactional=True)
        self.sequence += count
        return batch

    def commit(self) -> Batch:
        return marker(producer_id=self.id)

    def abort(self) -> Batch:
        return marker(producer_id=self.id, commit=False)


@pytest.fixture
def one() -> Producer:
    return Producer(1)


@pytest.fixture
def two() -> Producer:
    return Producer(2)


# The last stable offset


def test_the_oldest_open_transaction_holds_the_last_stable_offset(home: Home, one: Producer, two: Producer) -> None:
    steps = [
        (a_batch(2), 2),
        (one.batch(), 2),
        (a_batch(3), 2),
        (two.batch(2), 2),
        (one.batch(), 2),
        (one.commit(), 6),  # The second transaction began here.
        (one.batch(), 6),
        (two.abort(), 10),
        (a_batch(), 10),
        (one.commit(), 14),
    ]
    for batch, stable in steps:
        home.append(batch)
        assert home.log.last_stable_offset == stable
    assert home.log.log_end_offset == 14


def test_what_is_staged_does_not_move_it(home: Home, one: Producer) -> None:
    home.append(one.batch())
    home.stage(one.commit())
    assert home.log.last_stable_offset == 0
    home.log.commit()
    assert home.log.last_stable_offset == 2
    home.stage(one.batch())
    assert home.log.last_stable_offset == 2


def test_a_failed_write_takes_transactions_back(home: Home, one: Producer, two: Producer, disk: Disk) -> None:
    home.append(one.batch(), two.batch())
    home.stage(one.abort(), two.commit(), one.batch())
    with disk.full_after():
        home.log.commit()
    assert home.log.last_stable_offset == 0
    assert home.log.aborted_transactions(0, 100) == []
    home.append(two.commit())
    assert home.log.last_stable_offset == 0
    home.append(one.abort())
    assert home.log.last_stable_offset == 4
    assert home.log.aborted_transactions(0, 100) == [AbortedTxn(1, 0, 3, 4)]


def test_it_is_never_below_the_log_start_offset(home: Home, one: Producer) -> None:
    home.append(one.batch(), a_batch(5))
    home.log.advance_log_start_offset(4)
    assert home.log.last_stable_offset == 4


def test_reading_committed_records_ends_there(home: Home, one: Producer) -> None:
    home.append(a_batch(), one.batch(), a_batch())
    assert offsets_of(home.log) == [0, 1, 2]
    data = home.log.read(0, 1000, end_offset=home.log.last_stable_offset)
    assert data.size == a_batch().size
    assert home.log.read(1, 1000, end_offset=home.log.last_stable_offset).size == 0


@pytest.mark.parametrize("last_stop", LastStop)
def test_an_open_transaction_is_still_open_after_a_start(
    home: Home, one: Producer, two: Producer, last_stop: LastStop
) -> None:
    home.append(a_batch(), two.batch(), one.batch(), two.abort())
    for number in range(40):
        home.append(a_batch(3))
        if number % 15 == 0:
            home.log.take_producer_snapshot()
    assert len(home.log.segments) > 2
    log = home.reopen(last_stop)
    assert log.last_stable_offset == 2
    home.append(one.abort())
    assert log.last_stable_offset == log.log_end_offset
    assert log.aborted_transactions(0, 1000) == [AbortedTxn(2, 1, 3, 2), AbortedTxn(1, 2, 124, 125)]


def test_truncation_opens_a_transaction_again_and_forgets_its_abortion(home: Home, one: Producer) -> None:
    home.append(a_batch(), one.batch(), one.abort(), one.batch(), one.abort())
    home.log.truncate_to(4, NOW)
    assert home.log.aborted_transactions(0, 100) == [AbortedTxn(1, 1, 2, 3)]
    assert home.log.last_stable_offset == 3
    home.log.truncate_to(2, NOW)
    assert home.log.aborted_transactions(0, 100) == []
    assert home.log.last_stable_offset == 1
    home.append(one.abort())
    assert home.log.aborted_transactions(0, 100) == [AbortedTxn(1, 1, 2, 3)]


# The transaction index


def test_kafkas_entry_is_read_and_written_to_the_byte() -> None:
    data = WRITTEN_BY_KAFKA.read_bytes()
    assert decode_all(data) == [AbortedTxn(producer_id=5, first_offset=222, last_offset=223, last_stable_offset=224)]
    assert encode_aborted_txn(AbortedTxn(5, 222, 223, 224)) == data


def test_only_aborted_transactions_that_hold_records_are_indexed(home: Home, one: Producer, two: Producer) -> None:
    home.append(one.batch(), one.commit(), two.abort())
    assert home.names(".txnindex") == []
    home.append(one.batch(), one.abort(), one.abort())
    assert home.names(".txnindex") == [TXN_INDEX]
    assert decode_all(home.file(TXN_INDEX).read_bytes()) == [AbortedTxn(1, 3, 4, 5)]


def test_a_reader_learns_of_what_it_may_meet(tmp_path: Path, one: Producer, two: Producer) -> None:
    size = one.batch().size
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=4 * size))
    one.sequence = 0
    home.append(one.batch(), two.batch(), one.abort())  # These get offsets 0 to 2 while the other transaction is open.
    home.append(*(a_batch() for _ in range(7)))
    home.append(two.abort())  # This is offset 10.
    home.append(two.batch(), two.abort())  # These are offsets 11 and 12.
    assert len(home.log.segments) > 2
    first, second, third = AbortedTxn(1, 0, 2, 1), AbortedTxn(2, 1, 10, 11), AbortedTxn(2, 11, 12, 13)
    answers = {
        (0, 1): [first],
        (0, 2): [first, second],
        (2, 3): [first, second],
        (3, 4): [second],
        (3, 11): [second],
        (3, 12): [second, third],
        (11, 13): [third],
        (12, 13): [third],
        (13, 13): [],
    }
    for (fetch_offset, upper_offset), expected in answers.items():
        assert home.log.aborted_transactions(fetch_offset, upper_offset) == expected
    log = home.reopen(LastStop.CLEAN)
    for (fetch_offset, upper_offset), expected in answers.items():
        assert log.aborted_transactions(fetch_offset, upper_offset) == expected


def test_the_upper_bound_of_what_was_read_is_the_next_offset_that_an_index_knows(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=250, segment_bytes=2000))
    size = a_batch(2).size
    for _ in range(60):
        home.append(a_batch(2))
    for offset in range(0, 118, 2):
        for batches in (1, 2, 5, 100):
            data = home.log.read(offset, batches * size)
            last = offset + 2 * (data.size // size) - 1
            assert last < home.log.upper_bound_of(data) <= last + 1 + 2 * 5
    end = home.log.read(118, 1000)
    assert home.log.upper_bound_of(end) == 120
    home.log.truncate_fully_and_start_at(500, NOW)
    assert home.log.upper_bound_of(end) == 500


def an_index(path: Path, *entries: AbortedTxn, base_offset: int = 0) -> TransactionIndex:
    index = TransactionIndex(FilePool(2).handle(str(path / "index"), os.O_RDWR | os.O_CREAT), base_offset)
    for entry in entries:
        index.stage(entry)
    index.commit()
    return index


@given(
    steps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=600),
    offset=st.integers(0, 3000),
    cut=st.integers(0, 3000),
)
def test_entries_from_an_offset_on_are_those_that_a_search_through_all_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], offset: int, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp()
    (path / "index").unlink(missing_ok=True)
    entries: list[AbortedTxn] = []
    last = 0
    for forward, length in steps:
        last += forward
        entries.append(AbortedTxn(forward, max(last - length, 0), last, last + 1))
    index = an_index(path, *entries)
    assert list(index.since(offset)) == [entry for entry in entries if entry.last_offset >= offset]
    index.truncate_to(cut)
    expected = [entry for entry in entries if entry.last_offset < cut]
    assert list(index.since(0)) == expected
    assert decode_all((path / "index").read_bytes()) == expected
    again = TransactionIndex(FilePool(2).handle(str(path / "index"), os.O_RDWR | os.O_CREAT), 0)
    again.load(None)
    assert (again.entries, again.last_offset) == (len(expected), expected[-1].last_offset if expected else -1)


@pytest.mark.parametrize(
    "entries",
    [
        [AbortedTxn(1, 5, 9, 10)],  # It ends before the segment.
        [AbortedTxn(1, 105, 104, 110)],  # It ends before it begins.
        [AbortedTxn(1, 105, 110, 110), AbortedTxn(1, 105, 110, 110)],
        [AbortedTxn(1, 105, 200, 110)],  # It ends in the next segment.
    ],
)
def test_entries_that_cannot_belong_to_the_segment_are_noticed(tmp_path: Path, entries: list[AbortedTxn]) -> None:
    index = an_index(tmp_path, *entries, base_offset=100)
    with pytest.raises(CorruptIndexError):
        index.load(200)


def test_an_entry_of_another_version_and_a_torn_one_are_noticed(tmp_path: Path) -> None:
    data = encode_aborted_txn(AbortedTxn(1, 2, 3, 4))
    with pytest.raises(CorruptIndexError, match="version 1"):
        decode_all(struct.pack(">h", 1) + data[2:])
    with pytest.raises(CorruptIndexError, match="33 bytes"):
        decode_all(data[:-1])
    index = an_index(tmp_path, AbortedTxn(1, 2, 3, 4))
    with (tmp_path / "index").open("ab") as file:
        file.write(data[:20])
    index.load(None)
    assert index.entries == 1
    index.stage(AbortedTxn(1, 5, 6, 7))
    index.commit()
    assert list(index.since(0)) == [(1, 2, 3, 4), (1, 5, 6, 7)]


# Crashes


def with_history(path: Path) -> tuple[Home, list[AbortedTxn]]:
    """Return a log of many segments in which two producers abort and commit in turn, and its aborted transactions."""
    home = Home(path, LogConfig(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=1200))
    one, two = Producer(1), Producer(2)
    for number in range(30):
        home.append(one.batch(), two.batch(2), a_batch(3))
        home.append(one.abort() if number % 3 else one.commit())
        home.append(two.batch())
        if number == 15:
            home.log.take_producer_snapshot()
        if number % 2:
            home.append(two.abort())
    home.append(one.batch())
    found = home.log.aborted_transactions(0, 10**6)
    assert len(found) > 30
    assert len(home.names(".txnindex")) > 3
    return home, found


@pytest.mark.parametrize("last_stop", LastStop)
@pytest.mark.parametrize("lost", [".snapshot", ".index", ".timeindex"])
def test_they_are_the_same_after_a_stop(tmp_path: Path, last_stop: LastStop, lost: str) -> None:
    home, aborted = with_history(tmp_path / "orders-0")
    stable = home.log.last_stable_offset
    files = {name: home.file(name).read_bytes() for name in home.names(".txnindex")}
    home.log.close()
    for name in home.names(lost):
        if last_stop is not LastStop.CLEAN or lost != ".snapshot":  # For Kafka this means no producers.
            home.file(name).unlink()
    log = home.open(last_stop=last_stop)
    assert log.aborted_transactions(0, 10**6) == aborted
    assert log.last_stable_offset == stable
    assert {name: home.file(name).read_bytes() for name in home.names(".txnindex")} == files


@pytest.mark.parametrize("recovery_point", [0, 50, 100, 170, 10**6])
@pytest.mark.parametrize("damage", ["lost", "torn", "garbage"])
def test_what_was_not_flushed_of_the_index_is_found_again(tmp_path: Path, recovery_point: int, damage: str) -> None:
    home, aborted = with_history(tmp_path / "orders-0")
    stable = home.log.last_stable_offset
    home.crash()
    ends = [*(segment.base_offset for segment in home.log.segments[1:]), 10**6]
    for segment, end in zip(home.log.segments, ends, strict=True):
        path = Path(segment.transaction_index.file.path)
        if end > recovery_point and path.exists():
            data = path.read_bytes()
            flushed = 34 * sum(entry.last_offset < recovery_point for entry in decode_all(data))
            behind = {"lost": b"", "torn": data[flushed:][:17], "garbage": b"\1" * 68}
            path.write_bytes(data[:flushed] + behind[damage])
    log = home.open(last_stop=LastStop.CRASHED, recovery_point=recovery_point)
    assert log.aborted_transactions(0, 10**6) == aborted
    assert log.last_stable_offset == stable


@pytest.mark.parametrize("last_stop", LastStop)
@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_index_that_is_no_index_is_made_anew(tmp_path: Path, last_stop: LastStop, number: int) -> None:
    home, aborted = with_history(tmp_path / "orders-0")
    home.log.close()
    name = home.names(".txnindex")[number]
    before = home.file(name).read_bytes()
    home.file(name).write_bytes(b"\x7f" * 340)
    log = home.open(last_stop=last_stop)
    assert log.aborted_transactions(0, 10**6) == aborted
    assert home.file(name).read_bytes() == before


def test_after_a_kill_between_marker_and_index_entry_the_entry_is_written(tmp_path: Path) -> None:
    home, aborted = with_history(tmp_path / "orders-0")
    home.crash()
    copy = tmp_path / "copy"
    name = home.names(".txnindex")[-1]
    size = home.file(name).stat().st_size
    for torn in range(1, 35):
        shutil.copytree(home.path, copy)
        os.truncate(copy / name, size - torn)
        log = open_log(copy, home.config, LastStop.KILLED)
        assert log.aborted_transactions(0, 10**6) == aborted
        abandon(log)
        shutil.rmtree(copy)


def test_an_abortion_whose_marker_is_cut_off_is_forgotten(home: Home, one: Producer) -> None:
    home.append(a_batch(), one.batch(), one.abort())
    home.crash()
    os.truncate(home.file(LOG), home.file(LOG).stat().st_size - 1)
    for last_stop in (LastStop.KILLED, LastStop.CRASHED):
        log = home.open(last_stop=last_stop)
        assert log.aborted_transactions(0, 100) == []
        assert log.last_stable_offset == 1
        assert home.file(TXN_INDEX).read_bytes() == b""
        home.crash()


def test_retention_and_deletion_take_the_index_with_them(tmp_path: Path) -> None:
    home, aborted = with_history(tmp_path / "orders-0")
    end = home.log.segments[3].base_offset
    home.log.advance_log_start_offset(end)
    home.log.delete_old_segments(NOW)
    assert home.log.aborted_transactions(0, 10**6) == [entry for entry in aborted if entry.last_offset >= end]
    assert all(int(name.split(".")[0]) >= end for name in home.names(".txnindex"))
    assert any(".txnindex.deleted" in path for path in home.log.take_deleted_files())
    home.log.truncate_fully_and_start_at(0, NOW)
    assert home.names(".txnindex") == []
    assert home.log.last_stable_offset == 0
