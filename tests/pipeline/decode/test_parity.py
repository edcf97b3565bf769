"""Both engines compared with each other and with `minibroker_protocol`, on generated logs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minibroker_pipeline.decode import DamagedLogError, Engine, numpy_engine
from minibroker_pipeline.decode.columns import text_of
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.records.varint import wrap_int64
from tests.pipeline.decode.logs import ENGINES, logs, read, read_and_report
from tests.sweeps import one_in

few = settings(suppress_health_check=list(HealthCheck))

limits = st.fixed_dictionaries(
    {},
    optional={
        "first_offset": st.integers(0, 60),
        "end_offset": st.integers(0, 80),
        "include_control": st.booleans(),
        "isolation": st.sampled_from(["read_uncommitted", "read_committed"]),
        "aborted": st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 30)).map(
                lambda drawn: (drawn[0], min(drawn[1:]), max(drawn[1:]))
            ),
            max_size=2,
            unique_by=lambda drawn: drawn[0],
        ).map(tuple),
        "chunk_bytes": st.sampled_from([1, 100, 1000]),
    },
)


@pytest.fixture(params=one_in(2, [0, 24]), ids=["lanes only", "few lanes alone"], autouse=True)
def _few_lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_engine, "_MIN_LANES", request.param)


def outcome(data: bytes, engine: Engine, **options: Any) -> tuple[Any, ...]:
    """Return the rows and the report, or the error."""
    try:
        table, report = read_and_report(data, engine, **options)
    except DamagedLogError as error:
        return "damaged", str(error)
    return table.combine_chunks(), report


def compare(data: bytes, **options: Any) -> None:
    expected, result = (outcome(data, engine, **options) for engine in ENGINES)
    if isinstance(expected[0], pa.Table) and isinstance(result[0], pa.Table):
        for name in expected[0].column_names:
            assert result[0][name].equals(expected[0][name]), name
    assert result == expected


@few
@given(logs(odd=True), limits)
def test_engines_agree_about_whole_logs(data: bytes, options: dict[str, Any]) -> None:
    compare(data, **options)


@few
@given(logs(odd=True))
def test_rows_are_the_records_that_the_record_formats_own_reader_gives(data: bytes) -> None:
    expected: list[tuple[Any, ...]] = []
    for batch in iter_batches(data):
        for record in batch:
            headers = [(text_of(key.encode("utf-8", "surrogateescape")), value) for key, value in record.headers]
            time = record.timestamp * 1000 if abs(record.timestamp) <= (2**63 - 1) // 1000 else None
            around = (record.timestamp_type, batch.header.magic, batch.header.producer_id, batch.header.size_in_bytes)
            expected.append((record.key, record.value, wrap_int64(record.offset), time, headers or None, *around))
    columns = ("key", "value", "offset", "timestamp", "headers", "timestampType", "magic", "producerId", "batchSize")
    for engine in ENGINES:
        table = read(data, engine, columns, include_control=True)
        result: list[tuple[Any, ...]] = []
        if table.num_rows:
            times = table["timestamp"].cast(pa.int64()).to_pylist()
            for row, time in zip(table.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
                pairs = row["headers"] and [(pair["key"], pair["value"]) for pair in row["headers"]]
                result.append(
                    (row["key"], row["value"], row["offset"], time, pairs, *[row[name] for name in columns[5:]])
                )
        assert result == expected, engine


@few
@given(logs(most=4), st.data(), st.sampled_from(["failfast", "permissive"]), st.booleans())
def test_engines_agree_about_damaged_bytes(data: bytes, drawn: st.DataObject, mode: str, verify_crc: bool) -> None:  # noqa: FBT001 - drawn
    damaged = bytearray(data)
    for _ in range(drawn.draw(st.integers(1, 3)) if data else 0):
        position = drawn.draw(st.integers(0, len(data) - 1))
        damaged[position] = drawn.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = drawn.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))
    compare(bytes(damaged[:cut]), mode=mode, verify_crc=verify_crc)


@few
@given(st.binary(max_size=300), st.sampled_from(["failfast", "permissive"]))
def test_engines_agree_about_bytes_that_never_were_a_log(data: bytes, mode: str) -> None:
    compare(data, mode=mode)


def test_engines_agree_about_what_kafka_itself_wrote() -> None:
    directory = Path(__file__).parents[2] / "storage" / "data" / "kafka-3.9.1" / "orders-0"
    segments = sorted(directory.glob("*.log"))
    assert segments
    for segment in segments:
        options: dict[str, Any]
        for options in ({}, {"include_control": True}, {"first_offset": 100, "end_offset": 217}):
            compare(segment.read_bytes(), **options)


def test_engines_agree_about_more_entries_than_any_chunk_holds() -> None:
    """The kernel verifies the checksums of small entries, but not those of large ones."""
    entries: list[bytes] = []
    for index in range(400):
        records = [NewRecord(b"k%d" % index, bytes(index * 5), index)]
        if index % 3:
            entries.append(bytes(build_batch(records, base_offset=index)))
        else:
            entries.append(bytes(build_message_set(records, magic=index % 2, base_offset=index)))
    damaged = bytearray(b"".join(entries))
    for index in (7, 150, 399):
        damaged[sum(map(len, entries[:index])) + 30] ^= 1
    compare(b"".join(entries), chunk_bytes=20_000)
    compare(bytes(damaged), mode="permissive", chunk_bytes=20_000)
    _, report = read_and_report(bytes(damaged), "numba", mode="permissive")
    assert [damage.offset for damage in report.damage] == [7, 150, 399]
