"""Record sets that a topic rejects, independently of the other parts of an append."""

import pytest

from minibroker_protocol.errors import CorruptRecordError, InvalidRecordError, InvalidTimestampError, RecordError
from minibroker_protocol.records.append_policy import AppendPolicy
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set, encode_message
from minibroker_protocol.records.produced_set import RecordValidator, analyze, checked_batches, open_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.steps import drain

RECORDS = [NewRecord(b"k", b"v", 1000), NewRecord(None, b"w", 2000), NewRecord(b"q", None, 3000)]
CODEC = CompressionCodec.GZIP


def validate(data: bytes | bytearray, policy: AppendPolicy, now_ms: int = 2000) -> None:
    batches = [drain(open_batch(batch)) for batch in iter_batches(data)]
    drain(RecordValidator(policy, now_ms, "t-0").validate(batches))


def analyzed(data: memoryview) -> tuple[list[Batch], CompressionCodec]:
    batches = list(checked_batches(data))
    return batches, analyze(batches, len(data))


def every_format(records: list[NewRecord]) -> list[bytearray]:
    return [
        build_batch(records),
        build_batch(records, codec=CODEC),
        build_message_set(records, magic=1),
        build_message_set(records, magic=1, codec=CODEC),
        build_message_set(records, magic=0),
        build_message_set(records, magic=0, codec=CODEC),
    ]


@pytest.mark.parametrize("data", every_format(RECORDS))
def test_the_defaults_refuse_nothing(data: bytearray) -> None:
    validate(data, AppendPolicy())


def test_every_bad_record_of_a_batch_is_named_but_only_three_in_the_summary() -> None:
    data = build_batch([NewRecord(None, b"v", 1)] * 5)
    with pytest.raises(InvalidRecordError) as refused:
        validate(data, AppendPolicy(require_keys=True))
    assert [error.batch_index for error in refused.value.record_errors] == [0, 1, 2, 3, 4]
    assert str(refused.value).count("RecordError(batchIndex=") == 3


def test_the_range_is_told() -> None:
    with pytest.raises(InvalidTimestampError) as refused:
        validate(build_batch(RECORDS), AppendPolicy(before_max_ms=500, after_max_ms=5000))
    assert refused.value.record_errors == [
        RecordError(
            0, "Timestamp 1000 of message with offset 0 is out of range. The timestamp should be within [1500, 7000]"
        )
    ]


def test_under_the_brokers_own_time_limits_count_for_nothing() -> None:
    policy = AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME, before_max_ms=1, after_max_ms=1)
    validate(build_batch(RECORDS), policy)


def test_a_bad_timestamp_counts_more_than_a_missing_key() -> None:
    policy = AppendPolicy(require_keys=True, after_max_ms=500)
    with pytest.raises(InvalidTimestampError) as refused:
        validate(build_batch(RECORDS), policy)
    assert [error.batch_index for error in refused.value.record_errors] == [1, 2]


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CODEC])
@pytest.mark.parametrize("magic", [1, 2])
def test_only_brokers_set_the_append_time(magic: int, codec: CompressionCodec) -> None:
    marked = (
        build_batch(RECORDS, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
        if magic == 2
        else build_message_set(RECORDS, magic=1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
    )
    with pytest.raises(InvalidTimestampError) as refused:
        validate(marked, AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert "Producer should not set timestamp type to LogAppendTime" in refused.value.record_errors[0].message
    # Kafka ignores the type if records keep their producer's timestamps.
    validate(marked, AppendPolicy())


def wrapper(*messages: bytes | bytearray, magic: int = 1) -> bytearray:
    value = compress(CODEC, b"".join(messages), magic=magic)
    return bytearray(encode_message(0, None, value, magic=magic, timestamp=5, attributes=CODEC))


def test_a_wrong_checksum_in_a_wrapper_is_found() -> None:
    message = bytearray(encode_message(1, b"k", b"v", magic=1, timestamp=5))
    message[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="inner message 1"):
        validate(wrapper(encode_message(0, b"k", b"v", magic=1, timestamp=5), message), AppendPolicy())


def test_messages_of_another_format_in_a_wrapper_are_refused() -> None:
    with pytest.raises(InvalidRecordError, match="magic"):
        validate(wrapper(encode_message(0, b"k", b"v" * 20, magic=0)), AppendPolicy())


def test_offsets_of_a_v2_batch_must_follow_each_other() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 5), NewRecord(b"k", b"v", 5)])
    second = 61 + batch[61] // 2 + 1
    batch[second + 3] += 2
    with pytest.raises(InvalidRecordError, match="offset delta"):
        validate(batch, AppendPolicy())


def test_a_set_is_looked_at_as_a_whole_first() -> None:
    plain = build_message_set(RECORDS, magic=1)
    batches, codec = analyzed(memoryview(plain))
    assert [batch.header.base_offset for batch in batches] == [0, 1, 2]
    assert codec is CompressionCodec.NONE
    wrapped = build_message_set(RECORDS, magic=1, codec=CODEC)
    assert analyzed(memoryview(wrapped))[1] is CODEC


def test_a_last_message_that_is_cut_short_is_left_out() -> None:
    plain = build_message_set(RECORDS, magic=1)
    assert len(analyzed(memoryview(plain)[:-1])[0]) == 2


@pytest.mark.parametrize("size", [0, 5, 20])
def test_less_than_one_message_is_refused(size: int) -> None:
    with pytest.raises(InvalidRecordError, match=f"{size} bytes, which hold no"):
        analyzed(memoryview(build_message_set(RECORDS, magic=1))[:size])


def test_any_wrong_checksum_is_found() -> None:
    for data in every_format(RECORDS):
        data[-1] ^= 1
        with pytest.raises(CorruptRecordError, match="crc"):
            analyzed(memoryview(data))


def test_a_wrapper_comes_alone() -> None:
    plain, wrapped = build_message_set(RECORDS, magic=1), build_message_set(RECORDS, magic=1, codec=CODEC)
    for data in (wrapped + wrapped, wrapped + plain, plain + wrapped):
        with pytest.raises(InvalidRecordError, match="some of them compressed"):
            analyzed(memoryview(data))


def test_all_messages_have_one_format() -> None:
    mixed = build_message_set(RECORDS, magic=1) + build_message_set(RECORDS, magic=0)
    with pytest.raises(InvalidRecordError, match="magic: 0 in message 3, but 1 in the first"):
        analyzed(memoryview(mixed))
    newer = build_message_set(RECORDS, magic=1) + build_batch(RECORDS)
    with pytest.raises(InvalidRecordError, match="magic: 2 in message 3"):
        analyzed(memoryview(newer))
