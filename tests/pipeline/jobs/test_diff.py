"""Comparing log directories."""

import shutil
from pathlib import Path

import pytest

from minibroker_pipeline.decode import DamagedLogError
from minibroker_pipeline.jobs.diff import MAX_EXAMPLES, DiffSettings, diff
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.jobs.directories import flip, put_log

RECORDS = [
    NewRecord(b"key-%d" % (number % 7), b"value %d" % number, 1_000 + number, (("n", b"%d" % number),))
    for number in range(100)
]
BARE = [record._replace(headers=()) for record in RECORDS]


def batches(records: list[NewRecord], size: int, codec: str = "NONE", first: int = 0) -> bytes:
    return b"".join(
        bytes(build_batch(records[at : at + size], base_offset=first + at, codec=CompressionCodec[codec]))
        for at in range(0, len(records), size)
    )


@pytest.fixture
def left(tmp_path: Path) -> Path:
    put_log(tmp_path / "left", "orders-0", batches(RECORDS, 7))
    return tmp_path / "left"


def test_batches_and_codecs_and_segments_make_no_difference(left: Path, tmp_path: Path) -> None:
    segments = {0: batches(RECORDS[:40], 40, "GZIP"), 40: batches(RECORDS[40:], 9, "ZSTD", first=40)}
    put_log(tmp_path / "right", "orders-0", segments)
    report = diff(str(left), str(tmp_path / "right"))
    assert report.is_equal
    (line,) = report.lines
    assert (line.left, line.right, line.equal) == (100, 100, 100)
    assert report.as_text().endswith("equal\n")


def test_formats_make_no_difference_where_there_are_no_headers(tmp_path: Path) -> None:
    put_log(tmp_path / "left", "orders-0", batches(BARE, 10))
    put_log(tmp_path / "right", "orders-0", bytes(build_message_set(BARE, magic=1, codec=CompressionCodec.SNAPPY)))
    assert diff(str(tmp_path / "left"), str(tmp_path / "right")).is_equal


def test_each_record_that_differs_is_named_with_what_differs(left: Path, tmp_path: Path) -> None:
    changed = list(RECORDS)
    changed[10] = changed[10]._replace(value=None)
    changed[11] = changed[11]._replace(key=b"other", headers=())
    changed[12] = changed[12]._replace(timestamp=1)
    put_log(tmp_path / "right", "orders-0", batches(changed, 13))
    report = diff(str(left), str(tmp_path / "right"))
    (line,) = report.lines
    assert (line.equal, line.different, line.only_left, line.only_right) == (97, 3, 0, 0)
    assert [(example.offset, example.description) for example in line.examples] == [
        (10, "another value"),
        (11, "another key, headers"),
        (12, "another timestamp"),
    ]
    assert "orders-0 offset 11: another key, headers\n" in report.as_text()
    narrow = diff(str(left), str(tmp_path / "right"), DiffSettings(columns=("key",)))
    assert [example.offset for example in narrow.lines[0].examples] == [11]


def test_what_is_on_one_side_only_is_named(left: Path, tmp_path: Path) -> None:
    put_log(tmp_path / "right", "orders-0", batches(RECORDS[:50], 5) + batches(RECORDS[55:], 5, first=55))
    put_log(tmp_path / "right", "payments-3", batches(RECORDS, 10))
    report = diff(str(left), str(tmp_path / "right"))
    orders, payments = report.lines
    assert (orders.equal, orders.only_left, orders.only_right) == (95, 5, 0)
    assert [example.offset for example in orders.examples] == [50, 51, 52, 53, 54]
    assert (payments.only_right, len(payments.examples)) == (100, MAX_EXAMPLES)
    assert report.only_right == ["payments-3"]
    assert not report.is_equal
    assert diff(str(left), str(tmp_path / "right"), DiffSettings(topics=("payments",))).lines == [payments]


def test_an_empty_partition_on_one_side_only_is_a_difference(left: Path, tmp_path: Path) -> None:
    shutil.copytree(left, tmp_path / "right")
    put_log(tmp_path / "right", "orders-1", b"")
    assert not diff(str(left), str(tmp_path / "right")).is_equal


def test_by_content_records_may_be_anywhere_in_their_topic(left: Path, tmp_path: Path) -> None:
    for partition in range(2):
        put_log(tmp_path / "right", f"orders-{partition}", batches(RECORDS[partition::2][::-1], 4, first=500))
    by_content = DiffSettings(by_content=True)
    assert not diff(str(left), str(tmp_path / "right")).is_equal
    report = diff(str(left), str(tmp_path / "right"), by_content)
    assert report.is_equal
    assert [(line.partition, line.equal) for line in report.lines] == [(None, 100)]


def test_by_content_records_count_as_often_as_they_are_there(left: Path, tmp_path: Path) -> None:
    put_log(tmp_path / "right", "orders-0", batches([*RECORDS[1:], RECORDS[1], RECORDS[1]], 6))
    (line,) = diff(str(left), str(tmp_path / "right"), DiffSettings(by_content=True)).lines
    assert (line.left, line.right, line.equal, line.only_left, line.only_right) == (100, 101, 99, 1, 2)
    assert sorted(example.description for example in line.examples) == [
        "only on the left",
        "only on the right, 2 times",
    ]


def test_damage_ends_it_or_is_passed_over(left: Path, tmp_path: Path) -> None:
    shutil.copytree(left, tmp_path / "right")
    flip(next((tmp_path / "right").glob("*/*.log")), 100)
    with pytest.raises(DamagedLogError):
        diff(str(left), str(tmp_path / "right"))
    (line,) = diff(str(left), str(tmp_path / "right"), DiffSettings(mode="permissive")).lines
    assert (line.equal, line.only_left) == (93, 7)


def test_names_that_there_are_not_are_errors(left: Path) -> None:
    with pytest.raises(ValueError, match="payments"):
        diff(str(left), str(left), DiffSettings(topics=("payments",)))
    with pytest.raises(ValueError, match="color"):
        diff(str(left), str(left), DiffSettings(columns=("color",)))
