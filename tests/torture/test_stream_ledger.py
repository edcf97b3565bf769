"""The judgement on streams: each fault that it must find is planted once."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.torture.copies import DOOMED, Read
from tests.torture.ledger import TortureError
from tests.torture.stream_ledger import StreamLedger

LOGS: Mapping[int, Sequence[Read]] = {0: [Read(0, b"a"), Read(2, b"b")], 1: [Read(7, b"c")]}
ROWS = [(0, 0, b"a"), (0, 2, b"b"), (1, 7, b"c")]


@pytest.fixture
def ledger(tmp_path: Path) -> StreamLedger:
    return StreamLedger(tmp_path)


def write(ledger: StreamLedger, batch: int, rows: Sequence[tuple[int, int, bytes]]) -> None:
    """A micro-batch of one file."""
    partition, offset, value = zip(*rows, strict=True)
    file = ledger.folder / f"part-{batch}.parquet"
    pq.write_table(pa.table({"partition": partition, "offset": offset, "value": value}), file)
    log = ledger.folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    (log / str(batch)).write_text("v1\n" + json.dumps({"path": file.as_uri(), "action": "add"}))


def test_a_folder_with_all_records_once_is_right(ledger: StreamLedger) -> None:
    ledger.acknowledged |= {b"a", b"c"}
    assert ledger.look() == 0
    write(ledger, 0, ROWS[:1])
    assert ledger.look() == 1
    write(ledger, 1, ROWS[1:])
    assert ledger.look() == 3
    ledger.check(LOGS)
    assert ledger.files == 2


def test_files_that_no_micro_batch_has_committed_do_not_count(ledger: StreamLedger) -> None:
    write(ledger, 0, ROWS)
    pq.write_table(pa.table({"partition": [0], "offset": [0], "value": [b"a"]}), ledger.folder / "part-x.parquet")
    ledger.look()
    ledger.check(LOGS)


def test_a_row_that_is_twice_is_found(ledger: StreamLedger) -> None:
    write(ledger, 0, ROWS)
    write(ledger, 1, ROWS[2:])
    with pytest.raises(TortureError, match=r"twice, the second time in .*part-1.*: offset 7 of partition 1"):
        ledger.look()


def test_a_file_that_counts_no_more_is_found(ledger: StreamLedger) -> None:
    write(ledger, 0, ROWS)
    ledger.look()
    (ledger.folder / "_spark_metadata" / "0").unlink()
    with pytest.raises(TortureError, match=r"part-0\.parquet.* counted, and do so no more"):
        ledger.look()


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (ROWS[:2], "1 records are missing: offset 7 of partition 1"),
        ([*ROWS, (1, 8, b"d")], "1 rows are of no committed record: offset 8 of partition 1"),
        ([*ROWS[:2], (1, 7, b"x")], "1 rows have another value than their records: offset 7 of partition 1"),
    ],
)
def test_rows_that_are_not_the_topics_records_are_found(
    ledger: StreamLedger, rows: Sequence[tuple[int, int, bytes]], fault: str
) -> None:
    write(ledger, 0, rows)
    ledger.look()
    with pytest.raises(TortureError, match=fault):
        ledger.check(LOGS)


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        ([Read(0, b"a"), Read(3, b"a")], "the topic has b'a' twice: offset 0 of partition 0, offset 3 of partition 0"),
        ([Read(0, b"a"), Read(3, b"b" + DOOMED)], "a record of an aborted transaction is committed: offset 3"),
        ([Read(0, b"b")], "1 values were acknowledged and are gone: "),
    ],
)
def test_a_topic_that_is_wrong_itself_is_found(ledger: StreamLedger, log: Sequence[Read], fault: str) -> None:
    ledger.acknowledged.add(b"a")
    with pytest.raises(TortureError, match=fault):
        ledger.check({0: log})
