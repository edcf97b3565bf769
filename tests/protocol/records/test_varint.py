"""The sizes of zig-zag varints, and invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong, wrap_int64

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (1048575, "feff7f"),
        (1048576, "80808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_a_varint_has_these_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), [(2**63 - 1, "fe" + "ff" * 8 + "01"), (-(2**63), "ff" * 9 + "01")])
def test_the_longest_varlongs_take_ten_bytes(value: int, encoded: str) -> None:
    assert encode_varlong(value).hex() == encoded
    assert decode_varlong(bytes.fromhex(encoded)) == (value, 10)


@pytest.mark.parametrize(
    ("first", "last", "size"), [(0, 63, 1), (64, 8191, 2), (8192, 1048575, 3), (2**27, 2**31 - 1, 5)]
)
def test_sizes_step_at_the_documented_values(first: int, last: int, size: int) -> None:
    assert len(encode_varint(first)) == len(encode_varint(last)) == size


@given(INT32)
def test_every_int32_comes_back_from_at_most_five_bytes(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 5
    assert decode_varint(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))
    assert decode_varint(memoryview(encoded)) == (value, len(encoded))


@given(INT64)
def test_every_int64_comes_back_from_at_most_ten_bytes(value: int) -> None:
    encoded = encode_varlong(value)
    assert len(encoded) <= 10
    assert decode_varlong(encoded) == (value, len(encoded))


def test_a_value_beyond_the_width_is_not_encoded() -> None:
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(EncodeError, match=str(value)):
            encode_varint(value)
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(EncodeError, match=str(value)):
            encode_varlong(value)


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="more than 5 bytes"):
        decode_varint(b"\x80\x80\x80\x80\x80\x01")


def test_a_varlong_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="more than 10 bytes"):
        decode_varlong(b"\x80" * 10 + b"\x01")


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_varint_that_is_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="cut short"):
        decode_varint(data)
    with pytest.raises(DecodeError, match="cut short"):
        decode_varlong(data)


def test_bits_beyond_the_width_are_dropped_as_java_drops_them() -> None:
    assert decode_varint(bytes.fromhex("feffffff7f")) == (2**31 - 1, 5)
    assert decode_varlong(bytes.fromhex("fe" + "ff" * 8 + "7f")) == (2**63 - 1, 10)


@given(st.integers(-(2**64), 2**64))
def test_int64_sums_wrap_as_in_java(value: int) -> None:
    wrapped = wrap_int64(value)
    assert -(2**63) <= wrapped < 2**63
    assert (wrapped - value) % 2**64 == 0
