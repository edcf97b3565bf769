"""Functions generated from the description of a record: their source, and that they all read records alike."""

import sys
from collections.abc import Iterator

import pytest

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord, read_records, walk_records
from minibroker_protocol.records.record_loop import FIELDS, RecordLoop, source
from minibroker_protocol.records.record_times import read_times
from minibroker_protocol.records.varint import decode_varint, decode_varlong
from minibroker_storage.cleaner.batch_filter import extract_v2_keys
from tests.programs import run_to_success

SIZES = [0, 1, 63, 64, 8_191, 8_192, 1_100_000]
RECORDS = [
    NewRecord(None if number % 3 == 0 else b"k" * (number % 70), None if size == 1 else bytes(size), at, headers)
    for number, (size, at) in enumerate(zip(SIZES * 20, [0, 63, -1, 64, 10**9, -(10**9), 2**62] * 20, strict=True))
    for headers in ((), (("name", b"v"), ("other", None)))
]
BATCH = bytes(build_batch(RECORDS))
HEADER = RecordBatch(memoryview(BATCH)).header
DATA = BATCH[61:]


def fields_of_records() -> Iterator[tuple[int, int, int, bytes | None, bool, int]]:
    """Yield the offset delta, timestamp delta, start, key, nullness of the value, and end of each record."""
    position = 0
    while position < len(DATA):
        start = position
        length, position = decode_varint(DATA, position)
        end = position + length
        timestamp, position = decode_varlong(DATA, position + 1)
        offset, position = decode_varint(DATA, position)
        size, position = decode_varint(DATA, position)
        key = None if size < 0 else DATA[position : position + size]
        yield offset, timestamp, start, key, decode_varint(DATA, position + max(size, 0))[0] < 0, end
        position = end


def test_all_loops_read_what_a_call_for_each_field_reads() -> None:
    expected = list(fields_of_records())
    records = list(read_records(DATA, HEADER))
    assert [(each.offset, each.timestamp, each.key, each.value is None) for each in records] == [
        (offset, HEADER.base_timestamp + timestamp, key, is_null) for offset, timestamp, _, key, is_null, _ in expected
    ]
    assert [NewRecord(each.key, each.value, each.timestamp, each.headers) for each in records] == RECORDS
    assert walk_records(DATA, 0, len(RECORDS)) == max(each[1] for each in expected)
    times = [time for found in read_times(DATA, HEADER) for time in found.times]
    assert times == [HEADER.base_timestamp + each[1] for each in expected]
    keys = extract_v2_keys(DATA, 0, HEADER)
    assert keys.offsets == [each[0] for each in expected]
    assert keys.keys == [each[3] for each in expected]
    assert keys.tombstones == [each[4] for each in expected]
    assert keys.bounds == [0, *(each[5] for each in expected)]


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "attributes"])
def test_a_loop_may_end_behind_any_field(field: str) -> None:
    text = source("loop", RecordLoop("data, position", records="1", before="", fields={field: "last = position"}))
    namespace: dict[str, object] = {}
    exec(compile(text, "loop", "exec"), namespace)
    assert text.count("last = position") == 1


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_record_is_refused_by_its_number(cut: int) -> None:
    batch = bytes(build_batch([NewRecord(b"key", b"v" * 8_000, 1), NewRecord(b"k" * 70, b"value", 20_000)]))
    header = RecordBatch(memoryview(batch)).header
    data = batch[61:-cut]
    for read in (
        lambda: list(read_records(data, header)),
        lambda: walk_records(data, 0, 2),
        lambda: list(read_times(data, header)),
        lambda: extract_v2_keys(data, 0, header),
    ):
        with pytest.raises(InvalidRecordError, match=r"^record 1: |^record count: 2, but they end"):
            read()


def test_importing_the_records_generates_nothing() -> None:
    script = (
        "from minibroker_protocol.records import record, record_loop; record_loop.source = None;"
        "import minibroker_protocol.records.record_times; print(record.walk_records.__code__.co_filename)"
    )
    done = run_to_success([sys.executable, "-c", script])
    assert done.stdout.strip().endswith("record.py")
