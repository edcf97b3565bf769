"""read_committed queries on logs whose transaction index is damaged, missing, or different from the log."""

import struct
from pathlib import Path

import pytest

from minibroker_pipeline.decode import DamagedLogError
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.layout import TXN_INDEX_SUFFIX
from tests.pipeline.source.directories import ROOMY, close, new_reader, offsets, orders, read
from tests.storage.helpers import Home, a_batch, marker, sequenced

COMMITTED = [0, 1, 2, 3, 6, 9]
"""The offsets of plain records and of committed transactions in the log of `a_log`."""


def a_log(tmp_path: Path) -> Home:
    """Write a log.

    Committed: 0 to 2, 3, 6, 9. Aborted: 5 to 7, 8 to 10. Markers: 4, 7, 10, and 11 of an empty transaction.
    """
    home = orders(tmp_path, 1, config=ROOMY)
    home.append(sequenced(0, is_transactional=True), marker(), sequenced(1, is_transactional=True), a_batch())
    home.append(marker(commit=False), sequenced(0, producer_id=8, is_transactional=True), a_batch())
    home.append(marker(producer_id=8, commit=False), marker(producer_id=9, commit=False))
    return home


def read_offset_index(home: Home) -> Path:
    (name,) = home.names(TXN_INDEX_SUFFIX)
    return home.file(name)


def committed(tmp_path: Path, mode: str = "failfast") -> list[int]:
    return offsets(tmp_path, isolation="read_committed", mode=mode)


def test_an_abort_of_nothing_needs_no_entry(tmp_path: Path) -> None:
    home = a_log(tmp_path)
    close(home)
    assert committed(tmp_path) == COMMITTED
    for snapshot in home.path.glob("*.snapshot"):
        snapshot.unlink()
    assert committed(tmp_path) == COMMITTED


@pytest.mark.parametrize("cut", [0, 34])
def test_an_index_that_lacks_an_aborted_transaction_is_told_and_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    home = a_log(tmp_path)
    close(home)
    path = read_offset_index(home)
    path.write_bytes(path.read_bytes()[:cut])
    producer, span = (8, "8 to 10") if cut else (7, "5 to 7")
    lacks = f"{path} lacks an aborted transaction of producer {producer}, offsets {span}"
    with pytest.raises(DamagedLogError, match=lacks):
        committed(tmp_path)
    assert committed(tmp_path, "permissive") == COMMITTED
    assert lacks in caplog.text
    path.unlink()
    with pytest.raises(DamagedLogError, match="lacks an aborted transaction of producer 7"):
        committed(tmp_path)
    assert committed(tmp_path, "permissive") == COMMITTED
    assert len(offsets(tmp_path)) == 8


@pytest.mark.parametrize(
    ("field", "value"),
    [(2, 77), (10, 6), (10, 3), (10, 0), (18, 9), (18, 4)],
    ids=["producer", "begins later", "begins at a commit", "begins before a commit", "ends later", "ends at a commit"],
)
def test_an_entry_that_the_log_contradicts_is_damage(tmp_path: Path, field: int, value: int) -> None:
    home = a_log(tmp_path)
    close(home)
    path = read_offset_index(home)
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, field, value)
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match=str(path)):
        committed(tmp_path)
    assert set(committed(tmp_path, "permissive")) <= set(COMMITTED)


def test_an_index_that_cannot_be_read_stops_failfast_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = a_log(tmp_path)
    home.log.roll(0)
    home.append(sequenced(2, is_transactional=True), marker(commit=False), a_batch())
    close(home)
    path = home.file(home.names(TXN_INDEX_SUFFIX)[0])
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with pytest.raises(
        CorruptIndexError, match=rf"{path}: .*with mode=permissive what was aborted is taken from the log"
    ):
        committed(tmp_path)
    assert committed(tmp_path, "permissive") == [*COMMITTED, 14]
    assert f"{path}: transaction index: an entry of version" in caplog.text


def test_ranges_within_a_segment_are_held_against_the_index_too(tmp_path: Path) -> None:
    home = a_log(tmp_path)
    for number in range(400):
        home.append(sequenced(2 + number, value=bytes(900), is_transactional=True), marker(commit=number % 2 == 0))
    close(home)
    options = {"isolation": "read_committed", "splitBytes": 100_000}
    right = offsets(tmp_path, **options)
    assert len(right) == len(COMMITTED) + 200
    assert len(new_reader(tmp_path, **options).partitions()) > 2
    path = read_offset_index(home)
    path.write_bytes(path.read_bytes()[:-340])
    with pytest.raises(DamagedLogError, match=f"{path} lacks"):
        offsets(tmp_path, **options)
    rows = read(tmp_path, ("offset", "damage"), mode="permissive", **options)
    assert [row["offset"] for row in rows if row["damage"] is None] == right
    assert any(str(path) in row["damage"] for row in rows if row["damage"])
