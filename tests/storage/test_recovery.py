"""Recovery from the traces of a crash at the next start."""

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.records.header import compute_crc
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.entries import SCAN_CHUNK_BYTES
from minibroker_storage.errors import CorruptBatchError, StorageError
from minibroker_storage.files import FilePool
from tests.storage.counted_reads import counted, linux_only
from tests.storage.helpers import INDEX, LOG, NOW, SMALL, Home, a_batch, contents, offsets_of, sequenced

DENSE = LogConfig(index_interval_bytes=0, segment_index_bytes=1200)


def test_a_tail_torn_at_any_byte_is_cut_and_the_log_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", DENSE)
    home.append(*(a_batch(2, timestamps=[NOW + number, NOW]) for number in range(3)))
    original = home.file(LOG).read_bytes()
    size = len(original) // 3
    home.crash()
    for length in range(len(original) + 1):
        home.file(LOG).write_bytes(original[:length])
        log = home.open(last_stop=LastStop.CRASHED)
        batches = length // size
        assert log.log_end_offset == log.high_watermark == 2 * batches
        assert log.size == home.file(LOG).stat().st_size == batches * size
        assert offsets_of(log) == [0, 2, 4][:batches]
        index, times = log.segments[0].offset_index, log.segments[0].time_index
        assert [index.entry(slot) for slot in range(index.entries)] == [(3, size), (5, 2 * size)][: max(0, batches - 1)]
        rebuilt = [times.entry(slot) for slot in range(times.entries)]
        assert rebuilt == ([(NOW + 1, 3), (NOW + 2, 5)][: batches - 1] if batches > 1 else [(NOW, 1)][:batches])
        assert home.append(a_batch(timestamps=[NOW + 9])) == [2 * batches]
        assert offsets_of(log) == [0, 2, 4, 6][: batches + 1]
        home.crash()


@pytest.mark.parametrize("byte", range(0, 77, 3))
def test_a_flipped_bit_in_the_last_batch_cuts_it(home: Home, byte: int) -> None:
    home.append(a_batch(), a_batch())
    home.crash()
    data = bytearray(home.file(LOG).read_bytes())
    size = len(data) // 2
    data[size + byte % size] ^= 0x40
    home.file(LOG).write_bytes(data)
    offsets = offsets_of(home.open(last_stop=LastStop.CRASHED))
    # The checksum does not cover base offset and leader epoch. As in Kafka, a larger value there is not detected.
    assert offsets == [0] or (byte < 16 and len(offsets) == 2)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 500,
        b"\xff" * 61,
        bytes(range(256)) * 3,
        b"x",
        struct.pack(">qi", 2, 2**31 - 1) + b"\2" * 100,
        struct.pack(">qi", 2, -50) + b"\2" * 100,
        struct.pack(">qiib", 2, 30, 0, 2) + b"\0" * 200,
    ],
)
def test_garbage_behind_the_last_batch_is_cut(home: Home, garbage: bytes) -> None:
    home.append(a_batch(), a_batch())
    home.crash()
    with home.file(LOG).open("ab") as file:
        file.write(garbage)
    assert offsets_of(home.open(last_stop=LastStop.CRASHED)) == [0, 1]
    assert home.append(a_batch()) == [2]


def test_batches_whose_offsets_do_not_ascend_are_cut(home: Home) -> None:
    home.append(a_batch(2), a_batch(2))
    home.crash()
    data = home.file(LOG).read_bytes()
    home.file(LOG).write_bytes(data + data[: len(data) // 2])
    assert home.open(last_stop=LastStop.CRASHED).log_end_offset == 4


@pytest.mark.parametrize(("base_offset", "last_offset_delta"), [(2**31 - 1, 1), (2**40, 1), (-1, 1), (0, -1)], ids=str)
def test_a_batch_with_impossible_offsets_is_cut(home: Home, base_offset: int, last_offset_delta: int) -> None:
    home.append(a_batch(2))
    home.crash()
    data = bytearray(home.file(LOG).read_bytes())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 23, last_offset_delta)
    struct.pack_into(">I", data, 17, compute_crc(memoryview(data)))
    home.file(LOG).write_bytes(data)
    assert home.open(last_stop=LastStop.CRASHED).size == 0


def test_a_batch_larger_than_what_is_read_at_once_is_recovered(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(a_batch(), a_batch(value=b"v" * (SCAN_CHUNK_BYTES + 1000)), a_batch())
    assert home.reopen(LastStop.CRASHED).log_end_offset == 3
    home.crash()
    os.truncate(home.file(LOG), SCAN_CHUNK_BYTES + 500)
    assert home.open(last_stop=LastStop.CRASHED).log_end_offset == 1


def test_batches_across_many_chunks_are_recovered(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(a_batch(3, value=b"v" * 30_000) for _ in range(120)))
    assert home.log.size > 2 * SCAN_CHUNK_BYTES
    home.log.close()
    before = contents(home.path)
    home.open(last_stop=LastStop.CRASHED)
    home.log.close()
    assert contents(home.path) == before


# Older segments and their indexes


@pytest.fixture
def indexed(tmp_path: Path) -> Home:
    """Return a log with two closed segments of 11 batches and a batch in the third, all with index entries."""
    size = sequenced(0, 2).size
    home = Home(
        tmp_path / "orders-0",
        LogConfig(segment_bytes=11 * size, index_interval_bytes=size - 1, segment_index_bytes=1200),
    )
    for number in range(23):
        home.append(sequenced(2 * number, 2, timestamps=[NOW + number, NOW]), leader_epoch=number // 8)
    assert [segment.base_offset for segment in home.log.segments] == [0, 22, 44]
    return home


@pytest.mark.parametrize("last_stop", LastStop)
def test_lost_indexes_of_the_last_segment_are_made_anew(indexed: Home, last_stop: LastStop) -> None:
    indexed.append(*(sequenced(46 + number, timestamps=[NOW + 50 + number]) for number in range(4)), leader_epoch=2)
    indexed.log.close()
    before = contents(indexed.path)
    for suffix in ("index", "timeindex"):
        indexed.file(f"00000000000000000044.{suffix}").unlink()
    log = indexed.open(last_stop=last_stop)
    assert indexed.append(a_batch(), leader_epoch=2) == [50]
    log.truncate_to(50, NOW)
    log.close()
    assert contents(indexed.path) == before


@pytest.mark.parametrize("position", [0, 8, 73])
def test_bytes_that_were_spoilt_behind_our_back_are_told_to_the_reader(indexed: Home, position: int) -> None:
    log = indexed.reopen(LastStop.CLEAN)
    data = bytearray(indexed.file(LOG).read_bytes())
    data[position : position + 30] = b"\xff" * 30
    indexed.file(LOG).write_bytes(data)
    with pytest.raises(StorageError, match="no batch at byte"):
        list(log.segments[0].headers_from(0))
    if position < 12:
        with pytest.raises(CorruptBatchError, match="a batch of -1 bytes at byte 0"):
            log.segments[0].translate(0)


@pytest.mark.parametrize("entries", [0, 1, 5, 9])
def test_an_index_that_ends_too_early_or_tells_lies_is_noticed_after_an_unclean_stop(
    indexed: Home, entries: int
) -> None:
    indexed.crash()
    original = indexed.file(INDEX).read_bytes()
    lie = original[: 8 * entries] + struct.pack(">ii", 2 * entries + 5, 100 * entries + 61)
    for content in (original[: 8 * entries], lie):
        indexed.file(INDEX).write_bytes(content)
        log = indexed.open(last_stop=LastStop.CRASHED)
        assert offsets_of(log) == list(range(0, 46, 2))
        assert indexed.file(INDEX).read_bytes() == original
        indexed.crash()


def test_a_torn_older_segment_ends_the_log_there(indexed: Home) -> None:
    indexed.crash()
    name = LOG.replace("00.", "22.")
    os.truncate(indexed.file(name), indexed.file(name).stat().st_size - 1)
    log = indexed.open(last_stop=LastStop.CRASHED)
    assert log.log_end_offset == 42
    assert [segment.base_offset for segment in log.segments] == [0, 22]
    assert indexed.names(".log") == [LOG, name]
    assert log.producers.active[7].last_sequence == 41
    assert indexed.append(sequenced(42, 2)) == [42]


def test_while_the_last_segment_is_empty_the_one_before_is_scanned_too(indexed: Home) -> None:
    indexed.log.roll(NOW)
    indexed.crash()
    name = LOG.replace("00.", "44.")
    data = bytearray(indexed.file(name).read_bytes())
    data[-1] ^= 1
    indexed.file(name).write_bytes(data)
    log = indexed.open(last_stop=LastStop.CRASHED)
    assert log.log_end_offset == 44
    assert [segment.base_offset for segment in log.segments] == [0, 22, 44]
    assert log.producers.active[7].last_sequence == 43
    assert indexed.append(sequenced(44, 2)) == [44]
    assert offsets_of(log) == list(range(0, 46, 2))


@pytest.mark.parametrize("last_stop", LastStop)
def test_a_log_is_the_same_after_a_stop(indexed: Home, last_stop: LastStop) -> None:
    indexed.log.close()
    before = contents(indexed.path)
    log = indexed.open(last_stop=last_stop)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 46, 46)
    assert log.epochs.entries == ((0, 0), (1, 16), (2, 32))
    assert log.producers.active[7].last_sequence == 45
    assert [segment.max_timestamp for segment in log.segments] == [NOW + 10, NOW + 21, NOW + 22]
    log.close()
    assert contents(indexed.path) == before


@linux_only
def test_a_clean_start_reads_the_ends_of_the_files_only(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(a_batch(2, value=b"v" * 5000) for _ in range(200)))
    home.log.close()
    with counted() as reads:
        assert home.open(last_stop=LastStop.CLEAN).log_end_offset == 400
    assert reads.total("") < 35_000 < home.log.size // 50


@pytest.mark.parametrize("stop", [LastStop.CLEAN, LastStop.KILLED])
def test_a_wrong_mark_of_a_clean_stop_does_no_harm(indexed: Home, stop: LastStop) -> None:
    indexed.stop(stop)
    with indexed.file(LOG.replace("00.", "44.")).open("ab") as file:
        file.write(b"\1" * 90)
    log = indexed.open(last_stop=LastStop.CLEAN)
    assert log.log_end_offset == 46
    assert indexed.append(sequenced(46, 2)) == [46]


def test_an_index_that_was_never_trimmed_opens_cleanly(indexed: Home) -> None:
    indexed.crash()
    log = indexed.open(last_stop=LastStop.CLEAN)
    assert [segment.offset_index.entries for segment in log.segments] == [10, 10, 0]
    assert offsets_of(log, 30) == list(range(30, 46, 2))


# Producers and epochs


def test_producers_come_back_from_snapshot_and_log(indexed: Home) -> None:
    producers = dict(indexed.log.producers.active)
    indexed.crash()
    assert indexed.names(".snapshot") == ["00000000000000000022.snapshot", "00000000000000000044.snapshot"]
    log = indexed.open(last_stop=LastStop.CRASHED)
    assert log.producers.active[7].batches[-1] == producers[7].batches[-1]
    assert log.producers.check(sequenced(46, 2).header) is None
    indexed.crash()
    for name in indexed.names(".snapshot"):
        indexed.file(name).unlink()
    assert dict(indexed.open(last_stop=LastStop.CRASHED).producers.active) == producers
    assert indexed.names(".snapshot") == []


def test_a_snapshot_older_than_a_clean_end_is_brought_up_to_it(indexed: Home) -> None:
    indexed.log.close()
    indexed.file("00000000000000000046.snapshot").unlink()
    indexed.file("00000000000000000044.snapshot").write_bytes(b"damaged")
    log = indexed.open(last_stop=LastStop.CLEAN)
    assert log.producers.active[7].last_sequence == 45
    assert len(log.producers.active[7].batches) == 5


def test_a_lost_or_damaged_epoch_checkpoint_is_rebuilt_from_what_is_scanned(indexed: Home) -> None:
    indexed.crash()
    for damage in (b"", b"nonsense", b"0\n5\n0 0\n"):
        indexed.file("leader-epoch-checkpoint").write_bytes(damage)
        assert indexed.open(last_stop=LastStop.CRASHED, recovery_point=44).epochs.entries == ((2, 44),)
        indexed.crash()


def test_epochs_at_or_behind_the_end_are_dropped(indexed: Home) -> None:
    indexed.crash()
    indexed.file("leader-epoch-checkpoint").write_text("0\n3\n0 0\n2 32\n9 46\n")
    assert indexed.open(last_stop=LastStop.CRASHED).epochs.entries == ((0, 0), (2, 32))
    assert indexed.file("leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n2 32\n"


def test_a_checkpointed_log_start_counts(indexed: Home) -> None:
    indexed.log.close()
    log = indexed.open(last_stop=LastStop.CRASHED, log_start_offset=25)
    assert log.log_start_offset == 25
    assert log.epochs.entries == ((1, 25), (2, 32))
    log.close()
    log = indexed.open(last_stop=LastStop.CLEAN, log_start_offset=100)  # This is above all offsets of the log.
    assert (log.log_start_offset, log.log_end_offset, log.size) == (100, 100, 0)
    assert indexed.names(".log") == ["00000000000000000100.log"]


# Leftovers


def test_a_directory_without_segments_becomes_an_empty_log(indexed: Home) -> None:
    indexed.log.close()
    for suffix in (".log", ".snapshot"):
        for name in indexed.names(suffix):
            indexed.file(name).unlink()
    log = indexed.open(last_stop=LastStop.CRASHED, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert indexed.names("index") == ["00000000000000000005.index", "00000000000000000005.timeindex"]
    assert indexed.append(a_batch()) == [5]


@pytest.mark.parametrize(
    "names",
    [
        (f"{LOG}.deleted", f"{INDEX}.deleted"),
        ("leader-epoch-checkpoint.tmp", "00000000000000000007.index"),
        (f"{LOG}.cleaned", f"{LOG.replace('00.', '22.')}.swap"),
    ],
)
def test_leftovers_of_deletions_cleanings_and_writes_go(indexed: Home, names: tuple[str, str]) -> None:
    indexed.log.close()
    before = contents(indexed.path)
    for name in names:
        indexed.file(name).write_bytes(b"left over")
    indexed.open(last_stop=LastStop.CRASHED).close()
    assert contents(indexed.path) == before


def test_an_interrupted_swap_is_finished(indexed: Home) -> None:
    indexed.log.close()
    size = sequenced(0, 2).size
    first, second = indexed.file(LOG).read_bytes(), indexed.file(LOG.replace("00.", "22.")).read_bytes()
    # The cleaner kept two batches of the first two segments, and was stopped before it removed those segments.
    indexed.file(f"{LOG}.swap").write_bytes(first[3 * size : 4 * size] + second[-size:])
    log = indexed.open(last_stop=LastStop.CRASHED)
    assert offsets_of(log) == [6, 42, 44]
    assert [segment.base_offset for segment in log.segments] == [0, 44]
    assert log.log_end_offset == 46
    assert indexed.names(".swap") == []


def test_an_empty_swapped_segment_takes_its_namesakes_place(indexed: Home) -> None:
    indexed.log.close()
    indexed.file(f"{LOG}.swap").write_bytes(b"")
    assert offsets_of(indexed.open(last_stop=LastStop.CRASHED)) == list(range(22, 46, 2))


def test_foreign_files_are_left_alone(indexed: Home) -> None:
    indexed.log.close()
    for name in ("notes.txt", "1.log", "00000000000000000000.bak"):
        indexed.file(name).write_bytes(b"mine")
    indexed.open(last_stop=LastStop.CRASHED)
    for name in ("notes.txt", "1.log", "00000000000000000000.bak"):
        assert indexed.file(name).read_bytes() == b"mine"


def test_a_directory_that_is_not_there_is_an_error(home: Home) -> None:
    home.log.close()
    shutil.rmtree(home.path)
    with pytest.raises(FileNotFoundError):
        home.open(last_stop=LastStop.CLEAN)


def test_a_file_that_shrinks_while_it_is_read_ends_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "orders-0", SMALL, FilePool(10))
    home.append(a_batch(), a_batch())
    home.crash()
    real = os.pread

    def shrunken(fd: int, size: int, position: int) -> Any:
        return real(fd, min(size, 80), position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", shrunken)
        assert home.open(last_stop=LastStop.CRASHED).log_end_offset == 1
