"""Encoding rows as batches and decoding them."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_pipeline.decode import RECORD_COLUMNS, EncodedBatches, EncodeError, assemble, encode, scan_headers
from minibroker_pipeline.decode.request import HEADERS_TYPE
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import read, records

ROWS = (*RECORD_COLUMNS, "headers")
CODECS = [codec.name.lower() for codec in CompressionCodec]


def table_of(chosen: list[NewRecord], base_offset: int = 0) -> pa.RecordBatch:
    """Return the decoded rows of these records."""
    table = read(bytes(build_batch(chosen, base_offset=base_offset)), "numba", ROWS)
    return table.combine_chunks().to_batches()[0]


def rows_of(encoded: EncodedBatches, columns: tuple[str, ...] = ROWS) -> pa.Table:
    return read(encoded.data, "numba", columns)


def simple(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@given(
    records(most=20),
    st.sampled_from(CODECS),
    st.sampled_from([1, 60, 400, 2**20]),
    st.integers(0, 2**40),
    st.integers(0, 3),
)
def test_rows_come_back_as_they_were(
    chosen: list[NewRecord], codec: str, batch_bytes: int, base_offset: int, skipped: int
) -> None:
    rows = table_of(chosen, base_offset).slice(skipped)
    options: dict[str, Any] = {"codec": codec, "batch_bytes": batch_bytes, "base_offset": base_offset + skipped}
    encoded = encode(rows, **options)
    if rows.num_rows:
        assert rows_of(encoded).combine_chunks().to_batches()[0].equals(rows)
    rebuilt = bytearray()
    for batch in iter_batches(encoded.data):
        again = [NewRecord(record.key, record.value, record.timestamp, record.headers) for record in batch]
        rebuilt += build_batch(again, base_offset=batch.header.base_offset, codec=batch.header.codec)
    assert encoded.data == rebuilt
    assert encoded.headers.tolist() == scan_headers(rebuilt).tolist()


def test_a_batch_is_byte_for_byte_what_a_producer_would_send() -> None:
    chosen = [NewRecord(b"k", b"v" * 200, 5, (("h", None),)), NewRecord(None, b"", 2**41), NewRecord(b"", None, 0)]
    for codec in CompressionCodec:
        expected = build_batch(chosen, base_offset=7, codec=codec, partition_leader_epoch=4)
        result = encode(table_of(chosen), base_offset=7, codec=codec.name.lower(), leader_epoch=4)
        assert result.data == expected


def test_batches_are_full_before_they_exceed_their_size_and_never_empty() -> None:
    rows = simple(value=[bytes(90)] * 10 + [bytes(5000)] + [bytes(90)])
    encoded = encode(rows, batch_bytes=1000)
    batches = list(iter_batches(encoded.data))
    assert [batch.header.record_count for batch in batches] == [10, 1, 1]
    assert encoded.headers["base_offset"].tolist() == [0, 10, 11]
    for batch in batches:
        assert isinstance(batch, RecordBatch)
        batch.check_crc()
    assert encoded.headers["crc"].tolist() == [batch.header.crc for batch in batches]


def test_columns_may_be_missing_null_or_text() -> None:
    rows = rows_of(encode(simple(value=["ü", None]), default_timestamp=77)).to_pylist()
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [(None, "ü".encode(), None), (None,) * 3]
    assert {row["timestamp"] for row in rows} == {datetime(1970, 1, 1, 0, 0, 0, 77_000, tzinfo=UTC)}
    empty = encode(simple(key=pa.array([], pa.binary())))
    assert (len(empty.data), len(empty.headers)) == (0, 0)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_become_milliseconds(unit: str) -> None:
    times = pa.array([datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), None]).cast(pa.timestamp(unit, tz="UTC"))
    encoded = encode(simple(timestamp=times, value=[b"", b""]), default_timestamp=9)
    assert rows_of(encoded)["timestamp"].cast(pa.int64()).to_pylist() == [1_704_164_645_000_000, 9_000]
    assert rows_of(encode(simple(timestamp=[123])))["timestamp"].cast(pa.int64()).to_pylist() == [123_000]


def test_offsets_can_be_kept_with_their_gaps() -> None:
    offsets = [3, 4, 9, 2**31 + 20, 2**40]
    encoded = encode(simple(offset=offsets, value=[b"v"] * 5), keep_offsets=True)
    assert rows_of(encoded)["offset"].to_pylist() == offsets
    assert encoded.headers["base_offset"].tolist() == [3, 2**31 + 20, 2**40]
    assert encoded.headers["last_offset"].tolist() == [9, 2**31 + 20, 2**40]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_and_level_is_read_again(codec: str) -> None:
    rows = simple(value=[b"some text " * 50] * 300)
    encoded = encode(rows, codec=codec, batch_bytes=20_000, level=1 if codec != "none" else None)
    assert rows_of(encoded, ("value", "codec")).to_pylist() == [{"value": b"some text " * 50, "codec": codec}] * 300
    assert len(encoded.headers) > 5


def headers_with(null: str) -> pa.Array:
    header = None if null == "header" else {"key": None if null == "key" else "k", "value": b"v"}
    return pa.array([[header]], HEADERS_TYPE)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (simple(value=[1.5]), {}, "value: double"),
        (simple(value=[b""], timestamp=["now"]), {}, "timestamp: string"),
        (simple(value=[b""], headers=["x"]), {}, "headers: string"),
        (simple(headers=headers_with("key")), {}, "its key is null"),
        (simple(headers=headers_with("header")), {}, "its key is null"),
        (simple(value=[b""]), {"codec": "brotli"}, "codec: 'brotli'"),
        (simple(value=[b""]), {"codec": "gzip", "level": 99}, "gzip: there is no compression level 99"),
        (simple(value=[b""]), {"base_offset": -1}, "base offset: -1"),
        (simple(value=[b""]), {"keep_offsets": True}, "offset: a column"),
        (simple(offset=[5, 5]), {"keep_offsets": True}, "offset: the column must rise"),
        (simple(offset=[-1]), {"keep_offsets": True}, "offset: the column must rise"),
        (simple(offset=[2**63 - 1]), {"keep_offsets": True}, "leaves none for the end"),
    ],
)
def test_what_cannot_be_written_is_refused(rows: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(rows, **options)


@pytest.mark.parametrize("magic", [1, 2])
def test_no_batch_is_larger_than_readers_decompress(magic: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "MAX_DECOMPRESSED_SIZE", 1000)
    encoded = encode(simple(value=[bytes(90)] * 20), codec="lz4", batch_bytes=2**70, magic=magic)
    assert len(encoded.headers) > 1
    with pytest.raises(EncodeError, match="can be read again"):
        encode(simple(value=[bytes(1001)]), codec="lz4", magic=magic)
    assert len(encode(simple(value=[bytes(1001)]), magic=magic).headers) == 1


def test_headers_of_null_rows_and_of_slices_are_the_right_ones() -> None:
    lists = pa.array([[("a", b"1")], None, [], [("b", None), ("c", b"")], [("d", b"4")]], HEADERS_TYPE)
    encoded = encode(simple(headers=lists).slice(1, 3))
    expected = [None, None, [{"key": "b", "value": None}, {"key": "c", "value": b""}]]
    assert rows_of(encoded)["headers"].to_pylist() == expected
