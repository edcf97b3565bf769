"""Reading plain and wrapped message sets of formats v0 and v1, and rejecting invalid ones.

Writing message sets of formats v0 and v1 byte for byte, and values that cannot be written.
"""

import random
import struct
from binascii import crc32
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    EncodeError,
    InvalidRecordError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set, check_inner_crcs, encode_message
from minibroker_protocol.records.record import NewRecord, Record
from tests.protocol.hostile import at_most_allocated, count_refused, damaged
from tests.sweeps import one_in

MEGABYTE = 1024 * 1024


CODECS = [CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4]


COMPRESSING = CODECS[1:]


THREE = [NewRecord(b"a", b"1", 5), NewRecord(None, b"22", 9), NewRecord(b"c", None, 7)]


def wrapper(
    inner: bytes | bytearray,
    *,
    magic: int = 1,
    offset: int = 2,
    timestamp: int = 9,
    attributes: int = CompressionCodec.GZIP,
) -> LegacyRecordBatch:
    """Return a wrapper whose value is exactly these bytes, compressed."""
    value = compress(CompressionCodec.GZIP, inner)
    entry = encode_message(offset, None, value, magic=magic, timestamp=timestamp, attributes=attributes)
    return LegacyRecordBatch(memoryview(entry))


def with_crc(entry: bytes) -> bytes:
    """Return the entry with a correct CRC."""
    return entry[:12] + struct.pack(">I", crc32(entry[16:])) + entry[16:]


def v1_entry(rest: bytes, *, offset: int = 0) -> bytes:
    """Return a plain v1 entry whose key and value, with their lengths, are exactly these bytes."""
    return with_crc(struct.pack(">qiIBBq", offset, 14 + len(rest), 0, 1, 0, 5) + rest)


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [3, 7, 9]), (9, [3, 7, 9]), (10, [4, 8, 10]), (500, [494, 498, 500])]
)
def test_an_inner_offset_of_v1_counts_back_from_the_wrappers_unless_that_is_zero(
    offset: int, expected: list[int]
) -> None:
    inner = b"".join(encode_message(inner_offset, None, b"x", magic=1) for inner_offset in (3, 7, 9))
    batch = wrapper(inner, offset=offset)
    assert [record.offset for record in batch] == expected
    assert next(iter(batch)).offset == expected[0]


@pytest.mark.parametrize("offset", [1, -1, -(2**63)])
def test_a_v1_wrapper_before_its_last_inner_message_is_invalid(offset: int) -> None:
    batch = wrapper(build_message_set(THREE, magic=1), offset=offset)
    with pytest.raises(InvalidRecordError, match=f"offset: {offset}, less than the last inner one, 2"):
        iter(batch)


def test_the_wrappers_offset_does_not_move_the_inner_ones_of_v0() -> None:
    batch = wrapper(build_message_set(THREE, magic=0, base_offset=50), magic=0, offset=7)
    assert [record.offset for record in batch] == [50, 51, 52]


def test_inner_timestamps_and_types_count_for_nothing_under_log_append_time() -> None:
    batch = wrapper(build_message_set(THREE, magic=1), timestamp=777, attributes=CompressionCodec.GZIP | 0x08)
    assert [(record.timestamp, record.timestamp_type) for record in batch] == [(777, TimestampType.LOG_APPEND_TIME)] * 3


def test_an_inner_timestamp_type_counts_for_nothing_under_create_time() -> None:
    batch = wrapper(encode_message(0, None, None, magic=1, timestamp=3, attributes=0x08), offset=0)
    assert [(record.timestamp, record.timestamp_type) for record in batch] == [(3, TimestampType.CREATE_TIME)]


@pytest.mark.parametrize("timestamp_type", list(TimestampType))
def test_format_v0_has_no_timestamps_whatever_is_asked_for(timestamp_type: TimestampType) -> None:
    data = build_message_set(THREE, magic=0, timestamp_type=timestamp_type, log_append_time=5)
    assert data == build_message_set(THREE, magic=0)
    assert {(record.timestamp, record.timestamp_type) for batch in iter_batches(data) for record in batch} == {
        (-1, TimestampType.NO_TIMESTAMP_TYPE)
    }


@pytest.mark.parametrize("magic", [0, 1])
def test_an_inner_message_set_cut_at_any_byte_gives_its_whole_messages(magic: int) -> None:
    inner = bytes(build_message_set(THREE, magic=magic))
    ends = list(accumulate(batch.header.size_in_bytes for batch in iter_batches(inner)))
    for size in range(len(inner) + 1):
        whole = sum(end <= size for end in ends)
        if whole:
            assert len(list(wrapper(inner[:size], magic=magic))) == whole
        else:
            with pytest.raises(InvalidRecordError, match="no message"):
                iter(wrapper(inner[:size], magic=magic))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_single_entry_cut_short_is_corrupt(magic: int) -> None:
    entry = memoryview(encode_message(0, b"key", b"value", magic=magic))
    for size in range(len(entry)):
        with pytest.raises(CorruptRecordError):
            LegacyRecordBatch(entry[:size])
    assert LegacyRecordBatch(memoryview(bytes(entry) + b"more")).buffer == entry


@pytest.mark.parametrize(("magic", "smallest"), [(0, 14), (1, 22)])
def test_a_size_below_the_formats_smallest_is_corrupt(magic: int, smallest: int) -> None:
    entry = bytearray(encode_message(0, b"key", b"value", magic=magic))
    for size in (-(2**31), -1, 0, smallest - 1):
        struct.pack_into(">i", entry, 8, size)
        with pytest.raises(CorruptRecordError, match=str(size)):
            LegacyRecordBatch(memoryview(entry))
        with pytest.raises(CorruptRecordError):
            list(iter_batches(entry))


@pytest.mark.parametrize("magic", [2, 3, 255])
def test_another_magic_is_unsupported(magic: int) -> None:
    data = build_batch(THREE)
    data[16] = magic
    with pytest.raises(UnsupportedMagicError, match=f"magic: {magic}"):
        LegacyRecordBatch(memoryview(data))
    with pytest.raises(EncodeError, match=f"magic: {magic} instead of 0 or 1"):
        encode_message(0, None, None, magic=magic)


def test_inner_checksums_are_looked_at_only_when_asked() -> None:
    inner = build_message_set(THREE, magic=1)
    check_inner_crcs(bytes(inner), 1)
    inner[71] ^= 1  # the last byte of the second message's value
    batch = wrapper(inner)
    batch.check_crc()
    with pytest.raises(CorruptRecordError, match="inner message 1: crc: stored"):
        check_inner_crcs(batch.records_data(), 1)


@pytest.mark.parametrize(
    ("inner", "error", "message"),
    [
        (b"", InvalidRecordError, "no message"),
        (bytes(11), InvalidRecordError, "no message"),
        (struct.pack(">qi", 0, 13) + bytes(13), CorruptRecordError, "inner message 0: size 13"),
        (struct.pack(">qi", 0, -1) + bytes(30), CorruptRecordError, "inner message 0: size -1"),
        (struct.pack(">qi4xB", 0, 21, 1) + bytes(16), CorruptRecordError, "inner message 0: size 21"),
        (struct.pack(">qi", 0, 2**31 - 1) + bytes(100), InvalidRecordError, "no message"),
        (encode_message(0, b"k", b"v", magic=0), InvalidRecordError, "inner message 0: magic 0 in one of 1"),
        (build_batch(THREE), InvalidRecordError, "inner message 0: magic 2 in one of 1"),
        (wrapper(build_message_set(THREE, magic=1)).buffer, InvalidRecordError, "message 0: it is compressed itself"),
        (v1_entry(b"\x00\x00\x00\x01\xff\xff\xff\xff"), InvalidRecordError, "key length 1 in 22 bytes"),
        (v1_entry(b"\x7f\xff\xff\xff\xff\xff\xff\xff"), InvalidRecordError, "key length 2147483647"),
        (v1_entry(b"\xff\xff\xff\xff\x00\x00\x00\x01"), InvalidRecordError, "value length 1 in 22 bytes"),
        (v1_entry(b"\xff\xff\xff\xff\x7f\xff\xff\xff"), InvalidRecordError, "value length 2147483647"),
        (
            v1_entry(b"\xff" * 8, offset=2**63 - 1) + v1_entry(b"\xff" * 8, offset=0),
            InvalidRecordError,
            "inner message 0: offset 9223372036854775809 is not an int64",
        ),
    ],
)
def test_lying_inner_messages_are_refused_with_the_field_and_the_value(
    inner: bytes | memoryview, error: type[DecodeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(wrapper(bytes(inner)))


def test_a_wrapper_of_v0_holds_no_messages_of_v1() -> None:
    with pytest.raises(InvalidRecordError, match="inner message 0: magic 1 in one of 0"):
        iter(wrapper(build_message_set(THREE, magic=1), magic=0))


def test_messages_of_two_formats_in_one_wrapper_are_refused_before_the_first_is_read() -> None:
    mixed = build_message_set(THREE, magic=1) + build_message_set(THREE, magic=0)
    with pytest.raises(InvalidRecordError, match="inner message 3: magic 0 in one of 1"):
        iter(wrapper(mixed))


@pytest.mark.parametrize("rest", [b"\x00\x00\x00\x01\xff\xff\xff\xff", b"\xff\xff\xff\xff\x00\x00\x00\x01"])
def test_a_key_or_value_beyond_a_plain_message_is_invalid(rest: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="length: 1, but 0 bytes are left"):
        list(LegacyRecordBatch(memoryview(v1_entry(rest))))


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00"])
def test_any_negative_length_is_null_and_bytes_behind_the_value_are_passed_over_as_in_kafka(length: bytes) -> None:
    entry = v1_entry(length * 2 + b"stray")
    for batch in (LegacyRecordBatch(memoryview(entry)), wrapper(entry, offset=0)):
        assert list(batch) == [Record(0, 5, TimestampType.CREATE_TIME, None, None)]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_without_a_value_is_invalid(magic: int) -> None:
    entry = encode_message(0, None, None, magic=magic, attributes=CompressionCodec.SNAPPY)
    with pytest.raises(InvalidRecordError, match="value: null"):
        list(LegacyRecordBatch(memoryview(entry)))


def test_a_wrapper_may_have_a_key_which_nobody_looks_at() -> None:
    value = compress(CompressionCodec.GZIP, build_message_set(THREE, magic=1))
    batch = LegacyRecordBatch(memoryview(encode_message(2, b"key", value, magic=1, attributes=1)))
    assert [record.key for record in batch] == [b"a", None, b"c"]


def test_zstd_and_codecs_that_do_not_exist_are_refused() -> None:
    value = compress(CompressionCodec.ZSTD, build_message_set(THREE, magic=1))
    with pytest.raises(InvalidRecordError, match="zstd"):
        list(LegacyRecordBatch(memoryview(encode_message(2, None, value, magic=1, attributes=4))))
    for codec_id in (5, 6, 7):
        with pytest.raises(UnsupportedCodecError, match=str(codec_id)):
            list(LegacyRecordBatch(memoryview(encode_message(2, None, value, magic=1, attributes=codec_id))))
    with pytest.raises(EncodeError, match="zstd"):
        build_message_set(THREE, magic=1, codec=CompressionCodec.ZSTD)


def test_what_is_decompressed_once_can_be_checked_and_read() -> None:
    batch = LegacyRecordBatch(memoryview(build_message_set(THREE, magic=1, codec=CompressionCodec.SNAPPY)))
    data = batch.records_data()
    assert data == build_message_set(THREE, magic=1)
    assert list(batch.read(data)) == list(batch)


def test_a_plain_message_is_its_own_record_set_and_can_be_read_twice() -> None:
    entry = encode_message(7, b"key", b"value", magic=1, timestamp=5)
    batch = LegacyRecordBatch(memoryview(entry))
    assert not batch.is_compressed
    assert batch.records_data() == entry
    assert next(iter(batch)).offset == 7
    assert list(batch) == list(batch) == [Record(7, 5, TimestampType.CREATE_TIME, b"key", b"value")]


@pytest.mark.parametrize("magic", one_in(2, [0, 1]))
@pytest.mark.parametrize("codec", one_in(2, COMPRESSING))
def test_a_decompression_bomb_is_refused_within_bounded_memory(magic: int, codec: CompressionCodec) -> None:
    bomb = build_message_set([NewRecord(None, bytes(32 * MEGABYTE), 1)], magic=magic, codec=codec)
    (batch,) = iter_batches(bomb, max_decompressed_size=2 * MEGABYTE)
    with at_most_allocated(8 * MEGABYTE), pytest.raises(InvalidRecordError, match=f"more than {2 * MEGABYTE} bytes"):
        iter(batch)


@pytest.mark.parametrize("magic", one_in(2, [0, 1]))
def test_many_tiny_messages_are_read_within_bounded_memory(magic: int) -> None:
    inner = encode_message(0, None, None, magic=magic) * (2 * MEGABYTE // 34)
    batch = wrapper(inner, magic=magic)
    with at_most_allocated(8 * MEGABYTE):
        assert sum(1 for _ in batch) == 2 * MEGABYTE // 34


def read_everything(data: bytes | bytearray, limit: int = MEGABYTE) -> None:
    for batch in iter_batches(data, max_decompressed_size=limit):
        for record in batch:
            assert -(2**63) <= record.offset < 2**63


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_message_sets_raise_nothing_but_decode_errors(magic: int, codec: CompressionCodec) -> None:
    whole = build_message_set(THREE * 3, magic=magic, codec=codec, base_offset=2**63 - 20)
    dice = random.Random(magic * 10 + codec)
    assert count_refused(read_everything, damaged(whole, dice, 1000)) > 100


@pytest.mark.parametrize("magic", [0, 1])
def test_damaged_messages_in_a_sound_wrapper_raise_nothing_but_decode_errors(magic: int) -> None:
    whole = build_message_set(THREE * 3, magic=magic)
    dice = random.Random(magic)

    def read(inner: bytearray) -> None:
        batch = wrapper(inner, magic=magic, offset=dice.choice((0, 8, 2**63 - 1)))
        read_everything(bytes(batch.buffer))
        check_inner_crcs(batch.records_data(), magic)

    assert count_refused(read, damaged(whole, dice, 1000)) > 500


@given(data=st.binary(max_size=200), magic=st.sampled_from([0, 1]), codec_id=st.integers(0, 7))
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes, magic: int, codec_id: int) -> None:
    entry = encode_message(5, None, data, magic=magic, attributes=codec_id)
    for hostile in (data, entry, bytes(wrapper(data, magic=magic).buffer)):
        try:
            read_everything(hostile, 1000)
        except DecodeError as error:
            assert str(error)  # noqa: PT017 - most inputs raise, a few are valid


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
