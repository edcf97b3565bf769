"""Reading batches: round trips, rejected batches and their messages, and that no other errors are raised."""

import random
import struct
from collections.abc import Callable

import pytest

from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    InvalidRecordError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import HEADER, CompressionCodec, TimestampType, compute_crc, read_header
from minibroker_protocol.records.record import NewRecord, Record
from tests.protocol.hostile import count_refused, damaged

SAMPLE = [
    NewRecord(b"key", b"value", 1_700_000_000_000, (("name", b"content"), ("null", None))),
    NewRecord(None, None, 1_700_000_000_500),
    NewRecord(b"k" * 70, b"v" * 300, 1_699_999_000_000),
]


def with_crc(batch: bytearray) -> bytearray:
    """Return the batch with a correct CRC."""
    struct.pack_into(">I", batch, 17, compute_crc(memoryview(batch)))
    return batch


def batch_of(payload: bytes, *, count: int, attributes: int = 0) -> RecordBatch:
    """Return a batch whose records are exactly these bytes."""
    header = HEADER.pack(1000, 49 + len(payload), 0, 2, 0, attributes, count - 1, 5000, 6000, -1, -1, -1, count)
    return RecordBatch(memoryview(with_crc(bytearray(header + payload))))


def test_a_batch_can_be_read_twice_and_lies_over_the_callers_buffer() -> None:
    data = build_batch(SAMPLE)
    batch = RecordBatch(memoryview(data))
    assert list(batch) == list(batch)
    assert batch.buffer.obj is data


@pytest.mark.parametrize("batch_length", [-(2**31), -1, 0, 13])
def test_a_size_that_no_format_can_have_is_corrupt(batch_length: int) -> None:
    data = build_batch(SAMPLE)
    struct.pack_into(">i", data, 8, batch_length)
    with pytest.raises(CorruptRecordError, match=str(batch_length)):
        list(iter_batches(data))


@pytest.mark.parametrize("batch_length", [14, 48])
def test_a_v2_batch_smaller_than_its_header_is_corrupt(batch_length: int) -> None:
    data = build_batch(SAMPLE)
    struct.pack_into(">i", data, 8, batch_length)
    with pytest.raises(CorruptRecordError):
        list(iter_batches(data))
    with pytest.raises(CorruptRecordError):
        RecordBatch(memoryview(data))


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_a_v2_batch_of_another_magic_is_unsupported(magic: int) -> None:
    data = build_batch(SAMPLE)
    data[16] = magic
    with pytest.raises(UnsupportedMagicError, match=f"magic: {magic}"):
        RecordBatch(memoryview(data))


@pytest.mark.parametrize("magic", [3, 255])
def test_a_magic_above_two_ends_the_iteration_with_its_position(magic: int) -> None:
    data = build_batch(SAMPLE)
    data[16] = magic
    with pytest.raises(UnsupportedMagicError, match=f"magic: {magic} at byte 76"):
        list(iter_batches(build_batch([NewRecord(b"key", b"value", 5)]) + data))


def test_a_single_batch_cut_short_is_corrupt() -> None:
    data = build_batch(SAMPLE)
    for size in range(len(data)):
        with pytest.raises(CorruptRecordError):
            RecordBatch(memoryview(data)[:size])


def test_a_codec_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedCodecError):
        list(batch_of(b"", count=1, attributes=5))


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    assert list(batch_of(b"", count=0)) == []


# One record: length, attributes, timestamp delta, offset delta, key, value, header count.
GOOD = bytes.fromhex("0c 00 00 00 01 01 00")


@pytest.mark.parametrize(
    ("payload", "count", "message"),
    [
        ("", -1, "record count: -1"),
        ("", 1, "record 0: a field goes beyond"),
        (GOOD.hex(), 2, "record 1: a field goes beyond"),
        (GOOD.hex() + "00", 1, "record count: 1, but 1 bytes follow"),
        (GOOD.hex() * 3, 2, "record count: 2, but 7 bytes follow"),
        ("0e 00 00 00 01 01 00", 1, "record 0: length: 7, but 6 bytes are left"),
        ("01 00 00 00 01 01 00", 1, "record 0: length: -1"),
        ("0a 00 00 00 01 01 00", 1, "record 0: length: it ends at byte 6, its fields at byte 7"),
        ("feffffff0f 00 00 00 01 01 00", 1, "record 0: length: 2147483647"),
        ("ffffffffff 00 00 00 01 01 00", 1, "record 0: variable-length integer: more than 5 bytes"),
        ("1a 00 ffffffffffffffffffff 00 01 01", 1, "record 0: variable-length integer: more than 10 bytes"),
        ("0c 00 00 00 04 01 00", 1, "record 0: a field goes beyond|record 0: length"),
        ("0c 00 00 00 01 02 00", 1, "record 0: a field goes beyond|record 0: length"),
        ("0c 00 00 00 01 01 01", 1, "record 0: header count: -1"),
        ("0c 00 00 00 01 01 02", 1, "record 0: header count: 1, but 0 bytes are left"),
        ("14 00 00 00 01 01 fe ff ff ff 0f", 1, "record 0: header count: 2147483647"),
        ("10 00 00 00 01 01 02 01 01", 1, "record 0: header key length: -1"),
        ("10 00 00 00 01 01 02 08 01", 1, "record 0: variable-length integer: cut short"),
        ("10 00 00 00 01 01 02 00 04", 1, "record 0: length: it ends at byte 9, its fields at byte 11"),
    ],
)
@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_lying_records_are_refused_with_the_field_and_the_value(
    payload: str, count: int, message: str, codec: CompressionCodec
) -> None:
    data = compress(codec, bytes.fromhex(payload))
    with pytest.raises(InvalidRecordError, match=message):
        list(batch_of(data, count=count, attributes=codec))


def test_records_before_a_bad_one_are_still_read() -> None:
    records = iter(batch_of(GOOD + b"\x01", count=2))
    assert next(records) == Record(1000, 5000, TimestampType.CREATE_TIME, None, None, ())
    with pytest.raises(InvalidRecordError, match="record 1"):
        next(records)


def test_any_negative_length_is_null_as_in_kafka() -> None:
    (record,) = batch_of(bytes.fromhex("0c 00 00 00 05 7f 00"), count=1)
    assert (record.key, record.value) == (None, None)


def test_header_keys_that_are_not_utf8_survive_a_rewrite() -> None:
    (record,) = batch_of(bytes.fromhex("14 00 00 00 01 01 02 04 ff61 01"), count=1)
    ((name, value),) = record.headers
    assert (name.encode("utf-8", "surrogateescape"), value) == (b"\xffa", None)
    rewritten = RecordBatch(memoryview(build_batch([NewRecord(record.key, record.value, 1, record.headers)])))
    assert next(iter(rewritten)).headers == record.headers


def test_timestamps_wrap_as_in_java_where_a_delta_leads_beyond_an_int64() -> None:
    header = HEADER.pack(0, 49 + 7, 0, 2, 0, 0, 0, 2**63 - 1, 2**63 - 1, -1, -1, -1, 1)
    (record,) = RecordBatch(memoryview(header + bytes.fromhex("0c 00 02 00 01 01 00")))
    assert record.timestamp == -(2**63)


@pytest.mark.parametrize("codec", [codec for codec in CompressionCodec if codec])
def test_a_decompression_bomb_is_refused_at_the_readers_limit(codec: CompressionCodec) -> None:
    data = build_batch([NewRecord(None, bytes(3_000_000), 1)], codec=codec)
    (batch,) = iter_batches(data, max_decompressed_size=2_999_999)
    with pytest.raises(InvalidRecordError, match="more than 2999999 bytes"):
        list(batch)
    (batch,) = iter_batches(data)
    assert [record.value for record in batch] == [bytes(3_000_000)]


def read_everything(data: bytes | bytearray) -> None:
    for batch in iter_batches(data):
        batch.check_crc()
        list(batch)


def read_without_checking_the_crc(data: bytes | bytearray) -> None:
    for batch in iter_batches(data):
        list(batch)


@pytest.mark.parametrize("read", [read_everything, read_without_checking_the_crc])
@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_a_batch_cut_at_any_byte_raises_nothing_but_decode_errors(
    codec: CompressionCodec, read: Callable[[bytes | bytearray], None]
) -> None:
    whole = build_batch(SAMPLE, codec=codec)
    for size in range(len(whole)):
        read(whole[:size])  # A truncated batch does not count as a batch.
        if size >= 61:
            cut = whole[:size]
            struct.pack_into(">i", cut, 8, size - 12)
            with pytest.raises(DecodeError):
                read(cut)
            with pytest.raises(InvalidRecordError):
                read(with_crc(cut))


@pytest.mark.parametrize("codec", list(CompressionCodec))
def test_damaged_batches_raise_nothing_but_decode_errors(codec: CompressionCodec) -> None:
    whole = build_batch(SAMPLE, codec=codec)
    dice = random.Random(codec.value)
    repaired = (with_crc(data) for data in damaged(whole[21:], dice, 2000) for data in (whole[:21] + data,))
    assert count_refused(read_everything, repaired) > 200
    for _ in range(2000):
        flipped, position = bytearray(whole), dice.randrange(len(whole))
        flipped[position] ^= 1 << dice.randrange(8)
        # Only the base offset and the leader epoch are outside the CRC. A larger length makes the batch truncated.
        assert count_refused(read_everything, [flipped]) or position < 16


def test_read_header_agrees_with_the_batch() -> None:
    data = build_batch(SAMPLE)
    assert RecordBatch(memoryview(data)).header == read_header(data)
