"""Validation of produced records, compared with Kafka 3.9.1's `LogValidator`."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import (
    HEADER,
    CompressionCodec,
    TimestampType,
    compute_crc,
    read_entry_header,
    read_header,
    stamp,
)
from minibroker_protocol.records.legacy import build_message_set, encode_message
from minibroker_protocol.records.log_validator import AppendPolicy, PreparedRecords, prepare, prepare_in_steps
from minibroker_protocol.records.produced_batch import check_produced_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.steps import drain

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionCodec
CREATE_TIME, LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
NOW = 1_700_000_000_000
BASE = 2**35
RECORDS = [NewRecord(b"key", b"v" * 50, 10), NewRecord(None, b"v" * 50, 30), NewRecord(b"", None, 20)]
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40}


def appended(data: bytes | bytearray, policy: AppendPolicy) -> tuple[PreparedRecords, list[Batch]]:
    """Return the result, and its batches as they would be in the log, after checking their checksums."""
    prepared = prepare(memoryview(bytearray(data)), policy, base_offset=BASE, now_ms=NOW)
    assert prepared.header == read_entry_header(prepared.data)
    log = bytearray(prepared.data)
    if prepared.header.magic == 2:
        assert prepared.header.base_offset == 0
        stamp(log, BASE, 0)
    batches = list(iter_batches(log))
    assert sum(len(batch.buffer) for batch in batches) == len(log)
    for batch in batches:
        batch.check_crc()
    return prepared, batches


def produced(magic: int, codec: CompressionCodec, records: list[NewRecord] = RECORDS) -> bytearray:
    if magic == 2:
        return build_batch(records, codec=codec)
    return build_message_set(records, magic=magic, codec=codec)


FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in CompressionCodec if magic == 2 or codec is not ZSTD]


@pytest.mark.parametrize(
    ("codec", "timestamp_type", "offset"),
    [
        (NONE, CREATE_TIME, BASE + 1),  # the message with this timestamp
        (GZIP, CREATE_TIME, BASE + 2),  # the wrapper
        (NONE, LOG_APPEND_TIME, BASE),  # the first of several equal timestamps
        (GZIP, LOG_APPEND_TIME, BASE + 2),
    ],
)
def test_the_time_index_is_told_of_the_entry_with_the_highest_timestamp(
    codec: CompressionCodec, timestamp_type: TimestampType, offset: int
) -> None:
    policy = AppendPolicy(magic=1, timestamp_type=timestamp_type)
    assert appended(produced(1, codec), policy)[0].offset_of_max_timestamp == offset


def test_a_batch_of_many_records_keeps_them_all() -> None:
    prepared, (batch,) = appended(
        build_batch([NewRecord(None, None, 1 + n % 7) for n in range(20_001)]), AppendPolicy()
    )
    assert (prepared.header.record_count, prepared.header.max_timestamp) == (20_001, 7)
    assert batch.header.record_count == 20_001


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_compression_level_counts(magic: int) -> None:
    records = [NewRecord(b"%d" % (n * 7919), b"value %d" % (n * n), n) for n in range(2000)]
    sizes = [
        len(appended(produced(magic, NONE, records), AppendPolicy(codec=GZIP, level=level))[0].data) for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("codec", list(CompressionCodec))
@pytest.mark.parametrize("timestamp_type", [CREATE_TIME, LOG_APPEND_TIME])
def test_a_v2_batch_that_keeps_its_codec_stays_in_its_buffer(
    codec: CompressionCodec, timestamp_type: TimestampType
) -> None:
    buffer = build_batch(RECORDS, codec=codec)
    before = bytes(buffer)
    prepared = prepare(memoryview(buffer), AppendPolicy(timestamp_type=timestamp_type), base_offset=BASE, now_ms=NOW)
    assert prepared.data == buffer
    assert (bytes(buffer) == before) is (timestamp_type is CREATE_TIME)
    assert bytes(buffer[61:]) == before[61:]


def test_a_batch_that_claims_the_brokers_time_loses_it_under_create_time() -> None:
    for codec in (NONE, ZSTD):
        batch = build_batch(RECORDS, timestamp_type=LOG_APPEND_TIME)
        _, (stored,) = appended(batch, AppendPolicy(codec=codec))
        assert stored.header.timestamp_type is CREATE_TIME
    for magic in (1, 2):
        messages = build_message_set(RECORDS, magic=1, timestamp_type=LOG_APPEND_TIME, log_append_time=5)
        _, batches = appended(messages, AppendPolicy(magic=magic))
        assert {(r.timestamp, r.timestamp_type) for batch in batches for r in batch} == {(5, CREATE_TIME)}


def with_crc(batch: bytearray, **changes: int) -> bytearray:
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**changes))
    header = read_header(batch)
    HEADER.pack_into(batch, 0, *header._replace(crc=compute_crc(memoryview(batch))))
    return batch


def test_what_an_older_format_cannot_hold_is_refused() -> None:
    with_headers = build_batch([NewRecord(b"k", b"v", 1, (("h", b"x"),))])
    idempotent = build_batch(RECORDS, **PRODUCER)
    for magic in (0, 1):
        with pytest.raises(UnsupportedMagicError, match="headers"):
            appended(with_headers, AppendPolicy(magic=magic))
        with pytest.raises(UnsupportedMagicError, match="producer id"):
            appended(idempotent, AppendPolicy(magic=magic))
        with pytest.raises(UnsupportedCodecError, match="zstd"):
            appended(build_batch(RECORDS, codec=ZSTD), AppendPolicy(magic=magic))
        with pytest.raises(UnsupportedCodecError, match="zstd"):
            appended(produced(1, NONE), AppendPolicy(magic=magic, codec=ZSTD))
        appended(build_batch(RECORDS, codec=ZSTD), AppendPolicy(magic=magic, codec=GZIP))


def test_a_timestamp_before_the_epoch_cannot_be_written_anew() -> None:
    early = [NewRecord(b"k", b"v", -5)]
    appended(build_batch(early), AppendPolicy())
    for data, policy in ((build_batch(early), AppendPolicy(magic=1)), (early_v1(), AppendPolicy())):
        with pytest.raises(InvalidTimestampError, match="timestamp: -5"):
            appended(data, policy)


def early_v1() -> bytes:
    return encode_message(0, b"k", b"v", magic=1, timestamp=-5)


POLICIES = [
    AppendPolicy(magic=magic, codec=codec, timestamp_type=timestamp_type, require_keys=True, before_max_ms=5)
    for magic in (0, 1, 2)
    for codec in (None, LZ4)
    for timestamp_type in (CREATE_TIME, LOG_APPEND_TIME)
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_what_is_refused_has_not_been_touched(magic: int, codec: CompressionCodec, policy: AppendPolicy) -> None:
    buffer = produced(magic, codec)
    before = bytes(buffer)
    with pytest.raises(RecordValidationError) as refused:
        prepare(memoryview(buffer), policy, base_offset=BASE, now_ms=NOW)
    assert refused.value.record_errors
    assert bytes(buffer) == before


BROKEN_RECORDS = with_crc(build_batch(RECORDS)[:-1] + b"\x09")


def test_records_are_opened_only_as_far_as_the_policy_asks() -> None:
    by_header = AppendPolicy(timestamp_type=LOG_APPEND_TIME, validated_records=2)
    prepared, _ = appended(BROKEN_RECORDS, by_header)
    assert prepared.max_timestamp == NOW
    prepared, _ = appended(BROKEN_RECORDS, by_header._replace(codec=GZIP))
    assert prepared.header.codec is GZIP
    for policy in (
        by_header._replace(validated_records=3),
        by_header._replace(validated_records=-1),
        by_header._replace(require_keys=True),
        by_header._replace(timestamp_type=CREATE_TIME),
    ):
        for codec in (None, GZIP):
            with pytest.raises(InvalidRecordError):
                appended(BROKEN_RECORDS, policy._replace(codec=codec))


def error_of(check: Callable[..., object], *arguments: object, **options: object) -> type[DecodeError] | None:
    try:
        check(*arguments, **options)
    except DecodeError as error:
        return type(error)
    return None


def outcome(batch: bytearray) -> tuple[type[DecodeError] | None, type[DecodeError] | None]:
    """Return the results of the hot path and of `prepare` for a batch."""
    general = error_of(prepare, memoryview(bytearray(batch)), AppendPolicy(), base_offset=0, now_ms=NOW)
    return error_of(check_produced_batch, memoryview(batch), opened_records=-1), general


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"base_offset": 1},
        {"record_count": 2, "last_offset_delta": 1},
        {"record_count": 4},
        {"record_count": -1},
        {"attributes": 0x20},
        {"attributes": 5},
        {"producer_id": 5},
        {"attributes": 1},
    ],
)
@pytest.mark.parametrize("codec", [NONE, SNAPPY])
def test_the_hot_path_and_this_one_agree(changes: dict[str, int], codec: CompressionCodec) -> None:
    hot, general = outcome(with_crc(build_batch(RECORDS, codec=codec), **changes))
    assert hot is general
    assert (hot is None) is (not changes)


def test_also_about_batches_that_are_cut_short_wrong_checksums_and_second_batches() -> None:
    whole = build_batch(RECORDS)
    for invalid in (*(whole[:size] for size in (0, 11, 30, 60, 70)), whole * 2):
        assert outcome(invalid) == (InvalidRecordError, InvalidRecordError)
    whole[30] ^= 1
    assert outcome(whole) == (CorruptRecordError, CorruptRecordError)


NULLABLE_BYTES = st.none() | st.binary(max_size=40)
NEW_RECORDS = st.lists(
    st.builds(NewRecord, NULLABLE_BYTES, NULLABLE_BYTES, st.integers(-1, 2**62), st.just(())), min_size=1, max_size=30
)
OLD_CODECS = st.sampled_from([NONE, GZIP, SNAPPY, LZ4])


@given(
    records=NEW_RECORDS,
    magics=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    codec=OLD_CODECS,
    target=st.none() | OLD_CODECS,
    timestamp_type=st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]),
)
@settings(deadline=None, max_examples=150)
def test_no_record_is_lost_or_changed(
    records: list[NewRecord],
    magics: tuple[int, int],
    codec: CompressionCodec,
    target: CompressionCodec | None,
    timestamp_type: TimestampType,
) -> None:
    source, magic = magics
    policy = AppendPolicy(magic=magic, codec=target, timestamp_type=timestamp_type)
    prepared, batches = appended(produced(source, codec, records), policy)
    stored = [record for batch in batches for record in batch]
    assert [(record.key, record.value) for record in stored] == [(record.key, record.value) for record in records]
    assert [record.offset for record in stored] == list(range(BASE, BASE + len(records)))
    if min(magics) > 0 and timestamp_type is CREATE_TIME:
        assert [record.timestamp for record in stored] == [record.timestamp for record in records]
    assert prepared.max_timestamp == max(record.timestamp for record in stored)


@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_a_record_of_a_compressed_batch_is_limited_as_it_is_when_unpacked(timestamp_type: TimestampType) -> None:
    records = [NewRecord(None, value, 1) for value in (b"small", b"x" * 1000)]
    packed = build_batch(records, codec=CompressionCodec.GZIP)
    body = 1000 + 7  # attributes, both deltas, no key, two bytes for the value's length, no headers
    policy = AppendPolicy(timestamp_type=timestamp_type, max_record_bytes=body)
    appended(bytearray(packed), policy)
    policy = policy._replace(max_record_bytes=body - 1)
    with pytest.raises(InvalidRecordError) as refusal:
        appended(bytearray(packed), policy)
    assert str(refusal.value) == "Invalid record size: 1007 exceeds the configured maximum record size of 1006."
    appended(build_batch(records), policy)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_gets_the_offsets_that_are_next_when_it_is_ready(magic: int) -> None:
    ends = iter([10, 20])  # Another batch is appended while this one is compressed.
    batch = build_batch([NewRecord(b"k", b"v", 1), NewRecord(b"l", b"w", 2)], codec=CompressionCodec.GZIP)
    prepared = drain(
        prepare_in_steps(memoryview(batch), AppendPolicy(magic=magic), next_offset=lambda: next(ends, 20), now_ms=5)
    )
    assert (prepared.first_offset, prepared.last_offset) == (20, 21)
    assert [record.offset for entry in iter_batches(prepared.data) for record in entry] == [20, 21]
