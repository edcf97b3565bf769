"""Reasons to reject a produced batch. The results were compared with Kafka 3.9.1's own validator."""

import random
import struct
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    InvalidRecordError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records import produced_batch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import HEADER, CompressionCodec, read_header
from minibroker_protocol.records.produced_batch import MAX_OPENED_BYTES, check_produced_batch
from minibroker_protocol.records.record import NewRecord
from tests.protocol.hostile import count_refused, damaged
from tests.protocol.records.test_batch import with_crc

RECORDS = [
    NewRecord(b"key", b"value", 1_700_000_000_000, (("name", b"content"), ("null", None))),
    NewRecord(None, None, 1_700_000_000_500),
    NewRecord(b"k" * 70, b"v" * 300, 1_699_999_000_000),
]


def produced(**changes: Any) -> bytearray:
    """Return a valid batch with some header fields changed and a correct CRC."""
    batch = build_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0)
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**changes))
    return with_crc(batch)


def batch_of(payload: bytes, *, count: int, attributes: int = 0) -> bytearray:
    header = HEADER.pack(0, 49 + len(payload), -1, 2, 0, attributes, count - 1, 5, 5, -1, -1, -1, count)
    return with_crc(bytearray(header + payload))


def check(batch: bytes | bytearray, opened_records: int = -1) -> None:
    check_produced_batch(memoryview(batch), opened_records=opened_records)


NULLABLE_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=70), NULLABLE_BYTES), max_size=3).map(tuple)


@given(
    records=st.lists(
        st.builds(NewRecord, NULLABLE_BYTES, NULLABLE_BYTES, st.integers(-(2**63), 2**63 - 1), HEADERS),
        min_size=1,
        max_size=80,
    ),
    codec=st.sampled_from(CompressionCodec),
)
def test_whatever_the_builder_writes_passes(records: list[NewRecord], codec: CompressionCodec) -> None:
    batch = build_batch(records, codec=codec)
    for opened_records in (-1, 0, len(records)):
        header = check_produced_batch(memoryview(batch), opened_records=opened_records)
        assert header == read_header(batch)
        assert type(header) is type(read_header(batch))


@pytest.mark.parametrize("size", [0, 8, 11])
def test_too_few_bytes_for_any_batch_are_invalid(size: int) -> None:
    with pytest.raises(InvalidRecordError, match=f"{size} bytes"):
        check(produced()[:size])


def test_a_batch_cut_at_any_byte_is_invalid() -> None:
    batch = produced()
    for size in range(12, len(batch)):
        with pytest.raises(InvalidRecordError, match=f"but {size - 12} bytes are there"):
            check(batch[:size])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
def test_an_impossible_batch_length_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"batch length: {length}"):
        check(produced(batch_length=length))


@pytest.mark.parametrize("magic", [0, 1])
def test_older_message_formats_are_unsupported(magic: int) -> None:
    with pytest.raises(UnsupportedMagicError, match=f"magic: {magic}"):
        check(produced(magic=magic))


def test_a_lone_v0_message_is_unsupported_although_it_is_shorter_than_a_v2_header() -> None:
    message = struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1)
    assert len(message) == 26
    with pytest.raises(UnsupportedMagicError):
        check(message)


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_a_magic_that_never_was_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptRecordError, match="magic"):
        check(produced(magic=magic))


def test_a_second_batch_is_invalid_and_stray_bytes_are_corrupt() -> None:
    batch = produced()
    with pytest.raises(InvalidRecordError, match="second batch"):
        check(batch + batch)
    for rest in (b"\x00", bytes(11), bytes(40), batch[:-1], b"\xff" * 40):
        with pytest.raises(CorruptRecordError, match=f"but {len(rest)} bytes follow"):
            check(batch + rest)


def test_a_wrong_crc_is_corrupt() -> None:
    batch = produced()
    for position in range(17, len(batch)):
        batch[position] ^= 0x40
        with pytest.raises(CorruptRecordError, match="crc"):
            check(batch)
        batch[position] ^= 0x40
    check(batch)


def test_the_leader_epoch_is_the_brokers_and_may_be_anything() -> None:
    check(produced(partition_leader_epoch=12345))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_offset": 1}, "base offset: 1"),
        ({"base_offset": -1}, "base offset: -1"),
        ({"record_count": 0}, "record count: 0"),
        ({"record_count": -1, "last_offset_delta": -2}, "record count: -1"),
        ({"record_count": 2}, "record count: 2, with a last offset delta of 2"),
        ({"last_offset_delta": 3}, "record count: 3, with a last offset delta of 3"),
        ({"last_offset_delta": -1}, "record count: 3, with a last offset delta of -1"),
        ({"attributes": 0x20}, "control batch"),
        ({"base_sequence": -1}, "base sequence: -1, with producer id 7"),
        ({"base_sequence": -5, "producer_id": 0}, "base sequence: -5, with producer id 0"),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, "record count: 2147483647 in"),
        ({"record_count": 64, "last_offset_delta": 63}, "record count: 64 in"),
    ],
)
@pytest.mark.parametrize("opened_records", [0, -1])
def test_a_header_that_breaks_a_rule_is_invalid(changes: dict[str, int], message: str, opened_records: int) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        check(produced(**changes), opened_records)


def test_the_smallest_records_take_seven_bytes_each() -> None:
    records = [NewRecord(None, None, 5)] * 60
    batch = build_batch(records)
    assert len(batch) == 61 + 60 * 7
    check(batch)


def test_without_a_producer_id_the_sequence_does_not_matter() -> None:
    check(produced(producer_id=-1, base_sequence=-7))


@pytest.mark.parametrize("codec_id", [5, 6, 7])
@pytest.mark.parametrize("opened_records", [0, -1])
def test_a_codec_that_does_not_exist_is_unsupported(codec_id: int, opened_records: int) -> None:
    with pytest.raises(UnsupportedCodecError):
        check(produced(attributes=codec_id), opened_records)


GOOD = "0c 00 00 00 01 01 00"


@pytest.mark.parametrize(
    ("payload", "count", "message"),
    [
        (GOOD + "0c 00 00 00 01 01 00", 2, "record 1: offset delta: 0"),
        ("0c 00 00 01 01 01 00", 1, "record 0: offset delta: -1"),
        (GOOD + "0c 00 00 02 01 01 01", 2, "record 1: header count: -1"),
        (GOOD * 2, 1, "record count: 1, but 7 bytes follow"),
        ("0e 00 00 00 01 01 00", 1, "record 0: length: 7, but 6 bytes are left"),
        ("01 00 00 00 01 01 00", 1, "record 0: length: -1"),
        ("0a 00 00 00 01 01 00", 1, "record 0: length: it ends at byte"),
        ("feffffff0f 00 00 00 01 01 00", 1, "record 0: length: 2147483647"),
        ("ffffffffff 00 00 00 01 01 00", 1, "record 0: variable-length integer: more than 5 bytes"),
        ("1a 00 ffffffffffffffffffff 00 01 01", 1, "record 0: variable-length integer: more than 10 bytes"),
        ("0c 00 00 00 04 01 00", 1, "record 0: a field goes beyond|record 0: length"),
        ("0c 00 00 00 01 02 00", 1, "record 0: a field goes beyond|record 0: length"),
        ("0c 00 00 00 01 01 02", 1, "record 0: header count: 1, but 0 bytes are left"),
        ("10 00 00 00 01 01 02 01 01", 1, "record 0: header key length: -1"),
        ("10 00 00 00 01 01 02 00 04", 1, "record 0: length: it ends at byte"),
    ],
)
@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_opened_records_that_lie_are_invalid(payload: str, count: int, message: str, codec: CompressionCodec) -> None:
    batch = batch_of(compress(codec, bytes.fromhex(payload)), count=count, attributes=codec)
    with pytest.raises(InvalidRecordError, match=message):
        check(batch, count)
    check(batch, count - 1)  # The records are not opened, so the error is not noticed.


@pytest.mark.parametrize("codec", [codec for codec in CompressionCodec if codec])
def test_a_bomb_is_refused_when_it_is_opened(codec: CompressionCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = memoryview(build_batch([NewRecord(None, bytes(1_000_000), 1)], codec=codec))
    check_produced_batch(batch, opened_records=-1)
    monkeypatch.setattr(produced_batch, "MAX_DECOMPRESSED_SIZE", 999_999)
    with pytest.raises(InvalidRecordError, match="more than 999999 bytes"):
        check_produced_batch(batch, opened_records=-1)
    check_produced_batch(batch, opened_records=0)


@pytest.mark.parametrize("size", [1_000, MAX_OPENED_BYTES + 1])
@pytest.mark.parametrize("codec", [codec for codec in CompressionCodec if codec])
def test_few_records_that_take_many_bytes_are_trusted_as_many_records_are(codec: CompressionCodec, size: int) -> None:
    batch = bytearray(build_batch([NewRecord(None, bytes(size), 1)], codec=codec))
    struct.pack_into(">i", batch, 57, 2)  # a count of two, with one record
    struct.pack_into(">i", batch, 23, 1)
    with_crc(batch)
    with pytest.raises(InvalidRecordError):
        check_produced_batch(memoryview(batch), opened_records=-1)
    if size > MAX_OPENED_BYTES:
        assert check_produced_batch(memoryview(batch), opened_records=100).record_count == 2
    else:
        with pytest.raises(InvalidRecordError):
            check_produced_batch(memoryview(batch), opened_records=100)


@pytest.mark.parametrize("opened_records", [0, -1])
@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_damaged_batches_raise_nothing_but_decode_errors(codec: CompressionCodec, opened_records: int) -> None:
    whole = build_batch(RECORDS, codec=codec)
    samples = damaged(whole, random.Random(codec.value), 2000)
    repaired = (with_crc(sample) if index % 3 else sample for index, sample in enumerate(samples))
    assert count_refused(partial(check, opened_records=opened_records), repaired) > 500


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        check(data)
