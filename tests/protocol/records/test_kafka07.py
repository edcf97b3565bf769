"""Messages of Kafka 0.7, without offsets and keys."""

import random
import struct
from binascii import crc32

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
from minibroker_protocol.records import kafka07
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.kafka07 import Kafka07Message, iter_messages
from tests.protocol.hostile import at_most_allocated, count_refused, damaged

NONE, GZIP, SNAPPY = list(CompressionCodec)[:3]
MEGABYTE = 1024 * 1024


def message0(value: bytes) -> bytes:
    """Return a message of magic 0 including its size."""
    return struct.pack(">iBI", 5 + len(value), 0, crc32(value)) + value


def message1(value: bytes, codec: int = 0) -> bytes:
    """Return a message of magic 1 including its size."""
    return struct.pack(">iBBI", 6 + len(value), 1, codec, crc32(value)) + value


def test_each_field_stands_where_the_format_says() -> None:
    data = bytes.fromhex("00000008 00 352441c2 616263") + bytes.fromhex("00000009 01 00 352441c2 616263")
    assert list(iter_messages(data)) == [
        Kafka07Message(position=0, magic=0, codec=NONE, crc=0x352441C2, value=b"abc"),
        Kafka07Message(position=12, magic=1, codec=NONE, crc=0x352441C2, value=b"abc"),
    ]
    assert all(message.is_valid for message in iter_messages(data))


def test_a_message_is_addressed_by_the_byte_at_which_it_starts() -> None:
    data = message0(b"one") + message1(b"three") + message0(b"")
    assert [message.position for message in iter_messages(data, base_position=1000)] == [1000, 1012, 1027]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_messages_in_a_compressed_one_come_in_its_stead_with_its_position(codec: CompressionCodec) -> None:
    inner = message1(b"one") + message0(b"two") + message1(b"")
    wrapper = message1(compress(codec, inner), codec)
    data = message0(b"before") + wrapper + message1(b"after")
    assert [(m.position, m.value, m.codec, m.wrapper_codec) for m in iter_messages(data)] == [
        (0, b"before", NONE, NONE),
        (15, b"one", NONE, codec),
        (15, b"two", NONE, codec),
        (15, b"", NONE, codec),
        (15 + len(wrapper), b"after", NONE, NONE),
    ]
    assert all(message.is_valid for message in iter_messages(data))


def test_a_shallow_iteration_gives_compressed_messages_as_they_are() -> None:
    value = compress(GZIP, message1(b"one"))
    (message,) = iter_messages(message1(value, GZIP), deep=False)
    assert (message.codec, message.value, message.is_valid) == (GZIP, value, True)


def test_a_wrong_checksum_is_shown_not_refused() -> None:
    data = bytearray(message1(b"value"))
    data[-1] ^= 1
    (message,) = iter_messages(data)
    assert not message.is_valid


def test_attribute_bits_beyond_the_codecs_two_mean_nothing() -> None:
    (message,) = iter_messages(message1(b"value", 0xFC))
    assert (message.codec, message.value) == (NONE, b"value")


def test_a_last_message_cut_short_ends_the_iteration() -> None:
    data = message0(b"one") + message1(b"two")
    for size in range(len(data) + 1):
        assert len(list(iter_messages(data[:size]))) == (size >= 12) + (size == len(data))


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 4])
def test_a_size_that_no_message_has_is_corrupt(size: int) -> None:
    messages = iter_messages(message0(b"one") + struct.pack(">i", size) + bytes(50), base_position=100)
    assert next(messages).value == b"one"
    with pytest.raises(CorruptRecordError, match=f"message size: {size} at byte 112"):
        next(messages)


def test_a_message_of_magic_1_has_at_least_six_bytes() -> None:
    with pytest.raises(CorruptRecordError, match="message size: 5 at byte 0, less than magic 1 takes"):
        list(iter_messages(bytes.fromhex("00000005 01 00 000000")))


@pytest.mark.parametrize("magic", [2, 255])
def test_a_magic_above_one_is_unsupported(magic: int) -> None:
    data = bytearray(message1(b"value"))
    data[4] = magic
    with pytest.raises(UnsupportedMagicError, match=f"magic: {magic} at byte 0"):
        list(iter_messages(data))


def test_the_third_codec_came_later() -> None:
    with pytest.raises(UnsupportedCodecError, match="codec 3 at byte 0"):
        list(iter_messages(message1(b"value", 3)))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (compress(GZIP, b""), InvalidRecordError, "no message in the compressed one at byte 12"),
        (compress(GZIP, b"\x00\x00"), InvalidRecordError, "no message"),
        (compress(GZIP, message1(compress(GZIP, message1(b"")), 1)), InvalidRecordError, "a compressed message in"),
        (compress(GZIP, bytes(20)), CorruptRecordError, "message size: 0"),
        (b"", InvalidRecordError, "gzip"),
        (b"no gzip at all", InvalidRecordError, "gzip"),
    ],
)
def test_a_compressed_message_without_sound_messages_is_refused(
    value: bytes, error: type[DecodeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(iter_messages(message0(b"one") + message1(value, GZIP)))


def test_a_decompression_bomb_is_refused_within_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka07, "MAX_DECOMPRESSED_SIZE", 2 * MEGABYTE)
    bomb = message1(compress(GZIP, message1(bytes(32 * MEGABYTE))), GZIP)
    with at_most_allocated(8 * MEGABYTE), pytest.raises(InvalidRecordError, match=f"more than {2 * MEGABYTE} bytes"):
        list(iter_messages(bomb))


@given(data=st.binary(max_size=100), codec=st.integers(0, 255))
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes, codec: int) -> None:
    for hostile in (data, message1(data, codec), message1(compress(GZIP, data), GZIP)):
        try:
            list(iter_messages(hostile))
        except DecodeError as error:
            assert str(error)  # noqa: PT017 - most inputs raise, a few are valid


def test_damaged_files_raise_nothing_but_decode_errors() -> None:
    whole = message0(b"one") + message1(compress(GZIP, message1(b"two") * 5), GZIP) + message1(b"three")
    assert count_refused(lambda data: list(iter_messages(data)), damaged(whole, random.Random(7), 1000)) > 300
