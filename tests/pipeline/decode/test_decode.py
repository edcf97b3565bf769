"""Decoded rows with literal values. `test_parity` compares both engines on generated logs."""

import pickle
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from minibroker_pipeline.decode import (
    RECORD_COLUMNS,
    AbortedRange,
    DecodeReport,
    DecodeRequest,
    Engine,
    coalesce,
    decode,
    schema_of,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import ALL_COLUMNS, ENGINES, emptied, marker, read, read_and_report, stamped

CODECS = list(CompressionCodec)

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def three(base_offset: int = 0, **options: Any) -> bytes:
    """Return a batch of three records: one with key and value, one with a null key, one with a null value."""
    first = NewRecord(b"k0", b"v0", 1_000, (("h", b"x"), ("ü", None), ("h", b"")))
    records = [first, NewRecord(None, b"v1", 1_001), NewRecord(b"k2", None, 999)]
    return bytes(build_batch(records, base_offset=base_offset, **options))


def test_a_batch_becomes_the_rows_that_the_kafka_connector_gives(engine: Engine) -> None:
    rows = read(three(40), engine, (*RECORD_COLUMNS, "headers")).to_pylist()
    assert [row["key"] for row in rows] == [b"k0", None, b"k2"]
    assert [row["value"] for row in rows] == [b"v0", b"v1", None]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {("orders", 3, 0)}
    assert [row["offset"] for row in rows] == [40, 41, 42]
    assert rows[0]["timestamp"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert rows[2]["timestamp"] == datetime(1970, 1, 1, 0, 0, 0, 999_000, tzinfo=UTC)
    pairs = [{"key": "h", "value": b"x"}, {"key": "ü", "value": None}, {"key": "h", "value": b""}]
    assert [row["headers"] for row in rows] == [pairs, None, None]


def test_the_schema_is_the_one_that_was_asked_for_in_its_order(engine: Engine) -> None:
    columns = ("value", "headers", "offset", "codec")
    assert read(three(), engine, columns).schema == schema_of(columns)
    assert read(three(), engine, columns).column_names == list(columns)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_same_rows(engine: Engine, codec: CompressionCodec) -> None:
    table = read(three(codec=codec), engine)
    assert table.drop_columns(["codec", "batchSize"]).equals(read(three(), engine).drop_columns(["codec", "batchSize"]))
    assert table["codec"].to_pylist() == [codec.name.lower()] * 3


@pytest.mark.parametrize("codec", CODECS[:4])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_plain_and_wrapped_have_absolute_offsets(
    engine: Engine, magic: int, codec: CompressionCodec
) -> None:
    messages = [NewRecord(b"a", None, 5), NewRecord(None, b"b", 6), NewRecord(b"", b"", 7)]
    data = bytes(build_message_set(messages, magic=magic, base_offset=9, offsets=[9, 11, 14], codec=codec))
    rows = read(data, engine).to_pylist()
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (9, b"a", None),
        (11, None, b"b"),
        (14, b"", b""),
    ]
    milliseconds = [5, 6, 7] if magic else [-1, -1, -1]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows] == milliseconds
    assert {row["timestampType"] for row in rows} == {0 if magic else -1}
    assert {row["headers"] for row in rows} == {None}
    assert {row["magic"] for row in rows} == {magic}
    assert [row["batchBaseOffset"] for row in rows] == ([9, 9, 9] if codec else [9, 11, 14])
    assert {(row["producerId"], row["producerEpoch"], row["sequence"], row["leaderEpoch"]) for row in rows} == {
        (-1, -1, -1, -1)
    }


@pytest.mark.parametrize("magic", [1, 2])
def test_under_log_append_time_every_record_has_the_brokers_time(engine: Engine, magic: int) -> None:
    records = [NewRecord(b"a", b"", 5), NewRecord(b"b", b"", 99)]
    options: dict[str, Any] = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "codec": CompressionCodec.GZIP}
    data = build_batch(records, **options) if magic > 1 else build_message_set(records, magic=1, **options)
    table = read(bytes(data), engine)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [99_000, 99_000]
    assert table["timestampType"].to_pylist() == [1, 1]


def test_batch_fields_say_what_the_header_says(engine: Engine) -> None:
    data = three(
        100,
        codec=CompressionCodec.LZ4,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        partition_leader_epoch=5,
        is_transactional=True,
    )
    rows = read(data, engine).to_pylist()
    assert [row["sequence"] for row in rows] == [2**31 - 2, 2**31 - 1, 0]
    names = ("magic", "codec", "producerId", "producerEpoch", "isTransactional", "isControl", "leaderEpoch")
    assert {tuple(row[name] for name in names) for row in rows} == {(2, "lz4", 7, 2, True, False, 5)}
    assert {(row["batchBaseOffset"], row["batchSize"]) for row in rows} == {(100, len(data))}


def test_batch_fields_differ_from_batch_to_batch(engine: Engine) -> None:
    data = three(0, codec=CompressionCodec.ZSTD) + three(3, producer_id=1, base_sequence=10) + three(6)
    table = read(data, engine)
    assert table["codec"].to_pylist() == ["zstd"] * 3 + ["none"] * 6
    assert table["sequence"].to_pylist() == [-1] * 3 + [10, 11, 12] + [-1] * 3
    assert table["batchBaseOffset"].to_pylist() == [0] * 3 + [3] * 3 + [6] * 3


def test_records_outside_the_range_are_left_out(engine: Engine) -> None:
    data = three(0) + three(3) + three(6)
    table, report = read_and_report(data, engine, first_offset=2, end_offset=4)
    assert table["offset"].to_pylist() == [2, 3]
    assert table["headers"].to_pylist()[1] is not None
    assert report == DecodeReport(rows=2, batches=2, consumed=len(data))


def test_offsets_with_gaps_and_empty_batches_stay_as_compaction_left_them(engine: Engine) -> None:
    whole = build_batch([NewRecord(b"k", b"v", 1)], base_offset=10)
    data = emptied(0, 9, producer_id=3) + stamped(whole, last_offset_delta=4) + three(20)
    assert read(data, engine)["offset"].to_pylist() == [10, 20, 21, 22]


def test_a_delete_horizon_is_only_what_timestamps_count_from(engine: Engine) -> None:
    assert read(three(delete_horizon_ms=5_000), engine)["timestamp"].equals(read(three(), engine)["timestamp"])


def transactions() -> bytes:
    """Return a log in which producer 1 aborts 0-2 and commits 8-10.

    Producer 2 commits 4-6, and 11-13 have no producer.
    """

    def data(offset: int, producer_id: int) -> bytes:
        return three(offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)

    return b"".join((data(0, 1), marker(3, 1, 0), data(4, 2), marker(7, 2, 1), data(8, 1), three(11), marker(14, 1, 1)))


def test_read_committed_leaves_aborted_records_out_and_markers_are_no_rows(engine: Engine) -> None:
    aborted = (AbortedRange(1, 0, 3),)
    everything = read(transactions(), engine, aborted=aborted)["offset"].to_pylist()
    assert everything == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    committed = read(transactions(), engine, isolation="read_committed", aborted=aborted)["offset"].to_pylist()
    assert committed == everything[3:]


def test_markers_are_rows_when_asked_for(engine: Engine) -> None:
    aborted = (AbortedRange(1, 0, 3),)
    rows = read(transactions(), engine, include_control=True, isolation="read_committed", aborted=aborted).to_pylist()
    assert [(row["offset"], row["key"]) for row in rows if row["isControl"]] == [
        (3, b"\0\0\0\0"),
        (7, b"\0\0\0\1"),
        (14, b"\0\0\0\1"),
    ]
    assert rows[0]["offset"] == 3


def test_many_aborted_transactions_of_a_producer_are_told_apart(engine: Engine) -> None:
    batches = [three(4 * index, producer_id=1, base_sequence=0, is_transactional=True) for index in range(6)]
    aborted = ((1, 16, 19), (1, 0, 3), (1, 8, 11), (2, 0, 99))
    table = read(b"".join(batches), engine, isolation="read_committed", aborted=aborted)
    assert [offset // 4 for offset in table["offset"].to_pylist()[::3]] == [1, 3, 5]


def test_a_timestamp_that_spark_cannot_express_is_null(engine: Engine) -> None:
    most = (2**63 - 1) // 1000
    data = bytes(build_batch([NewRecord(b"", b"", time) for time in (0, most, most + 1, -most - 1, -(2**63))]))
    table = read(data, engine)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [0, most * 1000, None, None, None]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("61ff", "a\ufffd"),
        ("c080", "\ufffd\ufffd"),
        ("e48b", "\ufffd"),
        ("eda080", "\ufffd"),
        ("edbd", "\ufffd"),
        ("edbdf0bfc2ef", "\ufffd" * 4),
        ("edbde49fbf41", "\ufffd\u47ffA"),
        ("c2bdeda0ff", "\u00bd\ufffd\ufffd"),
        ("f4eda0", "\ufffd\ufffd"),
        ("f09f98", "\ufffd"),
    ],
)
def test_header_keys_that_are_not_utf8_become_what_java_makes_of_them(engine: Engine, key: str, text: str) -> None:
    """The expected texts come from `new String(bytes, UTF_8)` in Java 17."""
    name = bytes.fromhex(key).decode("utf-8", "surrogateescape")
    data = bytes(build_batch([NewRecord(b"", b"", 0, ((name, b"1"), ("fine", b"2")))]))
    (headers,) = read(data, engine)["headers"].to_pylist()
    assert headers == [{"key": text, "value": b"1"}, {"key": "fine", "value": b"2"}]


def test_many_headers_and_long_fields_take_longer_integers(engine: Engine) -> None:
    headers = tuple((f"key {index}", bytes(index)) for index in range(300))
    records = [NewRecord(bytes(70), bytes(20_000), 2**40, headers), NewRecord(bytes(9_000), b"x", 0)]
    table = read(bytes(build_batch(records)), engine)
    assert table["key"].to_pylist() == [bytes(70), bytes(9_000)]
    assert table["value"].to_pylist() == [bytes(20_000), b"x"]
    assert [(pair["key"], pair["value"]) for pair in table["headers"].to_pylist()[0]] == list(headers)


def test_no_entries_and_no_rows_give_no_batches(engine: Engine) -> None:
    assert list(decode(b"", DecodeRequest(engine=engine))) == []
    _, report = read_and_report(three(), engine, first_offset=3)
    assert report == DecodeReport(consumed=len(three()))


def test_an_entry_that_is_cut_short_is_left_for_the_caller(engine: Engine) -> None:
    data = three(0) + three(3)
    for missing in (1, 50, len(three()) - 20, len(three()) - 5):
        table, report = read_and_report(data[:-missing], engine)
        assert table["offset"].to_pylist() == [0, 1, 2]
        assert report.consumed == len(three(0))


def test_batches_of_rows_have_about_the_size_of_a_chunk_and_the_report_keeps_up(engine: Engine) -> None:
    records = [NewRecord(b"", bytes(1000), 0)] * 4
    data = b"".join(bytes(build_batch(records, base_offset=4 * index)) for index in range(400))
    report = DecodeReport()
    request = DecodeRequest(columns=("offset", "value"), engine=engine, chunk_bytes=40_000)
    rows = consumed = 0
    for batch in decode(data, request, report):
        rows += batch.num_rows
        assert report.rows == rows
        assert consumed < report.consumed <= len(data)
        assert batch.num_rows <= 44 * 8
        consumed = report.consumed
    assert rows == 1600
    assert report.consumed == len(data)


def test_compressed_batches_grow_into_several_chunks(engine: Engine) -> None:
    records = [NewRecord(b"", bytes(1000), 0)] * 40
    data = b"".join(
        bytes(build_batch(records, base_offset=40 * index, codec=CompressionCodec.ZSTD)) for index in range(30)
    )
    request = DecodeRequest(columns=("offset", "value"), engine=engine, chunk_bytes=10_000)
    batches = list(decode(data, request))
    assert np.concatenate([batch["offset"].to_numpy() for batch in batches]).tolist() == list(range(1200))
    assert len(batches) > 10


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, "u1").data])
def test_any_buffer_will_do_and_rows_outlive_it(engine: Engine, kind: Any) -> None:
    data = bytearray(three(0) + three(3, codec=CompressionCodec.LZ4))
    buffer = kind(data)
    tables = [pa.Table.from_batches([batch]) for batch in decode(buffer, DecodeRequest(engine=engine, chunk_bytes=1))]
    if isinstance(buffer, memoryview):
        data[:] = bytes(len(data))
    table = pa.concat_tables(tables)
    assert table["key"].to_pylist() == [b"k0", None, b"k2"] * 2


def test_two_readings_at_once_do_not_disturb_each_other(engine: Engine) -> None:
    log = b"".join(three(3 * index, codec=CODECS[index % 5]) for index in range(20))
    two = b"".join(bytes(build_batch([NewRecord(None, b"x" * 99, 0)], base_offset=index)) for index in range(20))
    request = DecodeRequest(columns=("offset", "value"), engine=engine, chunk_bytes=1)
    pairs = list(zip(decode(log, request), decode(two, request), strict=False))
    assert len(pairs) > 1
    assert [pair[0]["value"].to_pylist()[:2] for pair in pairs] == [[b"v0", b"v1"]] * len(pairs)
    assert {value for pair in pairs for value in pair[1]["value"].to_pylist()} == {b"x" * 99}


def test_small_batches_of_rows_are_joined(engine: Engine) -> None:
    request = DecodeRequest(columns=ALL_COLUMNS, engine=engine, chunk_bytes=1)
    data = b"".join(three(3 * index) for index in range(9))
    joined = list(coalesce(decode(data, request)))
    assert [batch.num_rows for batch in joined] == [27]
    assert joined[0].schema == schema_of(ALL_COLUMNS)
    assert [batch.num_rows for batch in coalesce(decode(data, request), target_bytes=1)] == [3] * 9 or engine == "numpy"
    assert list(coalesce([])) == []


def test_a_request_can_be_shipped_to_another_process(engine: Engine) -> None:
    request = DecodeRequest(topic="t", engine=engine, aborted=(AbortedRange(1, 2, 3),))
    assert pickle.loads(pickle.dumps(request)) == request
