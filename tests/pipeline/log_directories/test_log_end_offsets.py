"""The ends of logs that are read from their files while a broker writes them, or after it was killed."""

from pathlib import Path

import pytest

from minibroker_pipeline.decode import DamagedLogError, scan_headers
from minibroker_storage.data_directory.offset_checkpoints import write_offset_checkpoint
from minibroker_storage.layout import LOG_SUFFIX
from tests.pipeline.jobs.directories import flip
from tests.pipeline.source.directories import ROOMY, add, close, offsets, orders, read
from tests.storage.helpers import Home, a_batch, marker, sequenced

CHECKPOINT = "replication-offset-checkpoint"


def last_log(home: Home) -> Path:
    return home.file(home.names(LOG_SUFFIX)[-1])


def test_every_record_of_a_log_that_is_being_written_is_read(tmp_path: Path) -> None:
    home = orders(tmp_path)
    assert offsets(tmp_path) == list(range(180))
    add(home, 1)
    assert offsets(tmp_path) == list(range(183))


@pytest.mark.parametrize("cut", [1, 40, 80, 200, 700])
def test_a_log_that_is_cut_short_ends_before_the_entry_that_was_cut(tmp_path: Path, cut: int) -> None:
    home = orders(tmp_path, config=ROOMY)
    data = last_log(home).read_bytes()[:-cut]
    home.crash()
    last_log(home).write_bytes(data)
    assert offsets(tmp_path) == list(range(3 * len(scan_headers(data))))


def test_zeros_at_the_end_are_room_that_was_set_aside(tmp_path: Path) -> None:
    home = orders(tmp_path, 5)
    home.crash()
    with last_log(home).open("ab") as file:
        file.write(bytes(5000))
    assert offsets(tmp_path) == list(range(15))


def test_the_last_indexed_batch_may_be_torn(tmp_path: Path) -> None:
    home = orders(tmp_path, config=ROOMY)
    position = home.log.segments[-1].offset_index.last_position
    last = home.log.segments[-1].offset_index.last_offset
    home.crash()
    with last_log(home).open("r+b") as file:
        file.truncate(position + 30)
    assert offsets(tmp_path) == list(range(last - 2))


def test_a_wrong_checksum_at_the_end_is_damage_that_names_the_place(tmp_path: Path) -> None:
    home = orders(tmp_path, 3)
    home.crash()
    path = last_log(home)
    flip(path, -2)  # Change the last value.
    position = path.stat().st_size // 3 * 2
    with pytest.raises(DamagedLogError, match=rf"{path}: byte {position}, offset 6: .*mode=permissive"):
        offsets(tmp_path)
    assert offsets(tmp_path, mode="permissive") == list(range(6))
    assert offsets(tmp_path, endingOffsets='{"orders": {"0": 6}}') == list(range(6))
    assert offsets(tmp_path, verifyCrc="false") == list(range(9))


def test_a_length_that_reaches_beyond_the_file_is_damage_when_entries_follow(tmp_path: Path) -> None:
    home = orders(tmp_path, 3, config=ROOMY)
    home.crash()
    path = last_log(home)
    data = bytearray(path.read_bytes())
    data[len(data) // 3 + 8] = 0x7F
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match="reaches beyond entries that follow"):
        offsets(tmp_path)
    assert offsets(tmp_path, mode="permissive") == [0, 1, 2, 6, 7, 8]


def test_a_log_that_just_got_a_new_segment_ends_where_that_begins(tmp_path: Path) -> None:
    home = orders(tmp_path, 4)
    home.log.roll(0)
    assert last_log(home).stat().st_size == 0
    assert offsets(tmp_path) == list(range(12))
    assert offsets(tmp_path, startingOffsets="latest") == []


def test_nothing_above_the_high_watermark_of_a_running_kafka_is_read(tmp_path: Path) -> None:
    home = orders(tmp_path, 4)
    (tmp_path / ".lock").touch()
    write_offset_checkpoint(f"{tmp_path}/{CHECKPOINT}", {("orders", 0): 7})
    assert offsets(tmp_path) == list(range(7))
    assert offsets(tmp_path, highWatermark="logEnd") == list(range(12))
    close(home)  # After a clean stop, all records count.
    assert offsets(tmp_path) == list(range(12))
    assert offsets(tmp_path, highWatermark="checkpoint") == list(range(7))


def test_what_is_in_a_log_of_minibroker_counts_at_once(tmp_path: Path) -> None:
    orders(tmp_path, 4)
    (tmp_path / ".lock").write_text("the machine's present run\n")
    write_offset_checkpoint(f"{tmp_path}/{CHECKPOINT}", {("orders", 0): 7})
    assert offsets(tmp_path) == list(range(12))


def test_a_log_begins_where_records_were_deleted_to(tmp_path: Path) -> None:
    orders(tmp_path, 4)
    write_offset_checkpoint(f"{tmp_path}/log-start-offset-checkpoint", {("orders", 0): 5})
    assert offsets(tmp_path) == list(range(5, 12))


def with_transactions(tmp_path: Path) -> Home:
    """Write a log with an aborted (2, 3), a committed (6, 7) and an open (10) transaction.

    The markers are at 5 and 9, and the other records are outside transactions.
    """
    home = orders(tmp_path, 0)

    def transactional(sequence: int) -> None:
        home.append(sequenced(sequence, 2, is_transactional=True))

    home.append(a_batch(2))
    transactional(0)
    home.append(a_batch(1), marker(commit=False))
    transactional(2)
    home.append(a_batch(1), marker(commit=True))
    transactional(4)
    home.append(a_batch(2))
    return home


@pytest.mark.parametrize("lost", ["nothing", "snapshots", "transaction index"])
def test_committed_records_below_the_last_stable_offset_are_read(tmp_path: Path, lost: str) -> None:
    home = with_transactions(tmp_path)
    home.log.roll(0)
    home.append(a_batch(2))
    home.crash()
    for suffix in {"nothing": (), "snapshots": (".snapshot",), "transaction index": (".snapshot", ".txnindex")}[lost]:
        assert home.names(suffix)
        for name in home.names(suffix):
            home.file(name).unlink()
    assert offsets(tmp_path, isolation="read_committed") == [0, 1, 4, 6, 7, 8]
    assert offsets(tmp_path) == [0, 1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 14, 15]


def test_a_decision_lets_the_last_stable_offset_move(tmp_path: Path) -> None:
    home = with_transactions(tmp_path)
    home.append(marker(commit=False))
    assert offsets(tmp_path, isolation="read_committed") == [0, 1, 4, 6, 7, 8, 12, 13]


def test_markers_are_rows_for_those_who_ask(tmp_path: Path) -> None:
    with_transactions(tmp_path)
    rows = read(tmp_path, ("offset", "isControl", "key"), includeControl="true")
    assert [row["offset"] for row in rows if row["isControl"]] == [5, 9]
    assert len(rows) == 14
