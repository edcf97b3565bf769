"""F1 to F3 and F7: writing message sets of formats v0 and v1, to the byte, and what cannot be written."""

import pytest

from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

CODECS = [CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4]
COMPRESSING = CODECS[1:]
THREE = [NewRecord(b"a", b"1", 5), NewRecord(None, b"22", 9), NewRecord(b"c", None, 7)]


@pytest.mark.parametrize("codec", COMPRESSING)
def test_under_log_append_time_inner_messages_have_the_type_and_the_time_too_as_in_kafka(
    codec: CompressionCodec,
) -> None:
    data = build_message_set(
        THREE, magic=1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=777
    )
    (wrapper,) = iter_batches(data)
    assert [
        (entry.header.attributes, entry.header.max_timestamp) for entry in iter_batches(wrapper.records_data())
    ] == [(0x08, 777)] * 3


@pytest.mark.parametrize("codec", CODECS)
def test_no_record_makes_an_empty_set(codec: CompressionCodec) -> None:
    assert build_message_set([], magic=1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME) == b""


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (NewRecord(None, None, 5, (("name", b"content"),)), "headers"),
        (NewRecord(None, None, -2), "timestamp: -2"),
        (NewRecord(None, None, 2**63), "message of format v1"),
    ],
)
def test_what_these_formats_cannot_hold_cannot_be_written(record: NewRecord, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        build_message_set([record], magic=1)


@pytest.mark.parametrize("offsets", [[5, 5, 6], [5, 4, 6], [4, 5, 6], [5, 6, 5 + 2**31]])
def test_offsets_that_do_not_rise_from_the_base_or_go_too_far_cannot_be_written(offsets: list[int]) -> None:
    with pytest.raises(EncodeError, match="offset"):
        build_message_set(THREE, magic=1, base_offset=5, offsets=offsets)
