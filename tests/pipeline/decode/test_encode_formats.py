"""Encoding rows as messages of older formats, and as batches of producers."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_pipeline.decode import EncodeError, encode
from minibroker_pipeline.decode.request import HEADERS_TYPE
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import records

CODECS = [codec for codec in CompressionCodec if codec is not CompressionCodec.ZSTD]


def rows_of(chosen: list[NewRecord], offsets: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([record.key for record in chosen], pa.binary()),
            "value": pa.array([record.value for record in chosen], pa.binary()),
            "timestamp": pa.array([record.timestamp for record in chosen], pa.int64()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )


@given(
    records(with_headers=False, most=20),
    st.integers(0, 1),
    st.sampled_from(CODECS),
    st.integers(0, 2**40),
    st.lists(st.integers(1, 4), min_size=20, max_size=20),
    st.none() | st.integers(0, 2**40),
)
def test_a_message_set_is_byte_for_byte_what_the_record_formats_write(
    chosen: list[NewRecord],
    magic: int,
    codec: CompressionCodec,
    base_offset: int,
    steps: list[int],
    log_append_time: int | None,
) -> None:
    offsets = [base_offset + sum(steps[:number]) for number in range(len(chosen))]
    expected = build_message_set(
        chosen,
        magic=magic,
        base_offset=offsets[0],
        offsets=offsets,
        codec=codec,
        timestamp_type=TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME,
        log_append_time=log_append_time,
    )
    result = encode(
        rows_of(chosen, offsets),
        magic=magic,
        codec=codec.name.lower(),
        keep_offsets=True,
        batch_bytes=1 << 20,
        log_append_time=log_append_time,
    )
    assert result.data == expected
    assert result.headers["crc"].tolist() == [batch.header.crc for batch in iter_batches(result.data)]


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_are_full_before_they_exceed_their_size(magic: int) -> None:
    rows = rows_of([NewRecord(None, bytes(66), 5)] * 25, list(range(25)))
    wrapped = encode(rows, magic=magic, codec="gzip", batch_bytes=1000)
    assert [len(list(batch)) for batch in iter_batches(wrapped.data)] == [10, 10, 5]
    assert wrapped.headers["last_offset"].tolist() == [9, 19, 24]
    assert len(encode(rows, magic=magic, batch_bytes=1000).headers) == 25


def test_a_batch_of_the_brokers_time_has_it_throughout() -> None:
    chosen = [NewRecord(b"k", b"v", 5), NewRecord(b"k", b"w", 7)]
    stamped = [record._replace(timestamp=99) for record in chosen]
    expected = build_batch(stamped, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert encode(rows_of(chosen, [0, 1]), log_append_time=99).data == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"magic": 3}, "magic: 3"),
        ({"magic": 1, "codec": "zstd"}, "zstd, which format v1 does not know"),
        ({"magic": 1, "default_timestamp": -2}, "timestamp: -2"),
    ],
)
def test_what_an_older_format_lacks_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(pa.RecordBatch.from_pydict({"value": [b""]}), **options)


def test_headers_in_an_older_format_are_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"headers": pa.array([[{"key": "a", "value": None}]], HEADERS_TYPE)})
    with pytest.raises(EncodeError, match="headers: format v1"):
        encode(rows, magic=1)
