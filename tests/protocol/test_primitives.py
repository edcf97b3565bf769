"""Every primitive type, byte for byte, in small messages; UUIDs in Kafka's form; plain values as JSON."""

import math
from typing import Any

import pytest

from minibroker_protocol.codec import decode
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.json_values import number_json
from minibroker_protocol.primitives import (
    ZERO_UUID,
    new_uuid,
    parse_uuid,
    read_uvarint,
    skip_tagged_fields,
    uuid_text,
    write_uvarint,
)
from tests.protocol.sample_messages import Arrays, Numbers, Texts, encoded

UUID = bytes(range(16))


def numbers(**fields: Any) -> Numbers:
    zero: dict[str, Any] = dict.fromkeys(("boolean", "int8", "int16", "int32", "int64", "uint16", "float64"), 0)
    return Numbers(**{**zero, "uuid": ZERO_UUID, **fields})


def texts(**fields: Any) -> Texts:
    return Texts(
        **{"string": "", "nullable_string": None, "data": b"", "nullable_data": None, "records": None, **fields}
    )


def arrays(**fields: Any) -> Arrays:
    return Arrays(**{"shorts": [], "names": [], "ids": [], "numbers": None, **fields})


GOLDEN_NUMBERS = (
    b"\x01"  # BOOLEAN true
    b"\x80"  # INT8 -128
    b"\x7f\xff"  # INT16 32767
    b"\xff\xff\xff\xfe"  # INT32 -2
    b"\x01\x02\x03\x04\x05\x06\x07\x08"  # INT64
    b"\xff\xfe"  # UINT16 65534
    b"\xc0\x04\x00\x00\x00\x00\x00\x00" + UUID  # FLOAT64 -2.5
)


NUMBERS = numbers(
    boolean=True, int8=-128, int16=32767, int32=-2, int64=0x0102030405060708, uint16=65534, float64=-2.5, uuid=UUID
)


@pytest.mark.parametrize(("version", "tail"), [(0, b""), (1, b"\0")], ids=["plain", "flexible"])
def test_numbers_look_the_same_in_plain_and_flexible_versions(version: int, tail: bytes) -> None:
    golden = GOLDEN_NUMBERS + tail
    assert encoded(NUMBERS, version) == golden
    assert decode(Numbers, memoryview(golden), version) == (NUMBERS, len(golden))


def test_texts_in_plain_versions_have_fixed_lengths_and_minus_one_for_null() -> None:
    golden = b"\0\x03h\xc3\xa4" + b"\xff\xff" + b"\0\0\0\x02\x01\x02" + b"\xff\xff\xff\xff" + b"\xff\xff\xff\xff"
    value = texts(string="hä", data=b"\x01\x02")
    assert encoded(value, 0) == golden
    assert decode(Texts, memoryview(golden), 0) == (value, len(golden))
    full = b"\0\0" + b"\0\x01n" + b"\0\0\0\0" + b"\0\0\0\x01d" + b"\0\0\0\x03rec"
    value = texts(nullable_string="n", nullable_data=b"d", records=b"rec")
    assert encoded(value, 0) == full
    assert decode(Texts, memoryview(full), 0) == (value, len(full))


def test_texts_in_flexible_versions_have_varint_lengths_plus_one_and_zero_for_null() -> None:
    golden = b"\x04h\xc3\xa4" + b"\0" + b"\x03\x01\x02" + b"\0" + b"\0" + b"\0"
    value = texts(string="hä", data=b"\x01\x02")
    assert encoded(value, 1) == golden
    assert decode(Texts, memoryview(golden), 1) == (value, len(golden))
    full = b"\x01" + b"\x02n" + b"\x01" + b"\x02d" + b"\x04rec" + b"\0"
    value = texts(nullable_string="n", nullable_data=b"d", records=b"rec")
    assert encoded(value, 1) == full
    assert decode(Texts, memoryview(full), 1) == (value, len(full))


@pytest.mark.parametrize("size", [126, 127, 128, 16_382, 16_383, 20_000])
def test_a_compact_length_grows_with_its_text(size: int) -> None:
    value = texts(string="x" * size, data=bytes(size))
    out = encoded(value, 1)
    prefix = bytearray()
    write_uvarint(prefix, size + 1)
    assert out.startswith(prefix + b"x")
    assert decode(Texts, memoryview(out), 1) == (value, len(out))


def test_arrays_in_plain_versions() -> None:
    golden = b"\0\0\0\x02\0\x01\xff\xff\0\0\0\x02\0\x01a\0\0\0\0\0\x01" + UUID + b"\xff\xff\xff\xff"
    value = arrays(shorts=[1, -1], names=["a", ""], ids=[UUID])
    assert encoded(value, 0) == golden
    assert decode(Arrays, memoryview(golden), 0) == (value, len(golden))


def test_arrays_in_flexible_versions() -> None:
    golden = b"\x03\0\x01\xff\xff" + b"\x03\x02a\x01" + b"\x02" + UUID + b"\x03\0\0\0\x05\x7f\xff\xff\xff\0"
    value = arrays(shorts=[1, -1], names=["a", ""], ids=[UUID], numbers=[5, 2**31 - 1])
    assert encoded(value, 1) == golden
    assert decode(Arrays, memoryview(golden), 1) == (value, len(golden))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [126, 127, 128, 1000])
def test_long_arrays_keep_their_elements(version: int, size: int) -> None:
    value = arrays(shorts=list(range(size)), names=["n"] * size, numbers=[7] * size)
    assert decode(Arrays, memoryview(encoded(value, version)), version)[0] == value


def test_a_float_that_is_no_number_comes_back_as_none() -> None:
    out = encoded(numbers(float64=math.nan), 0)
    assert math.isnan(decode(Numbers, memoryview(out), 0)[0].float64)


def test_any_byte_but_zero_is_true() -> None:
    golden = b"\x02" + GOLDEN_NUMBERS[1:]
    assert decode(Numbers, memoryview(golden), 0)[0].boolean is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("int8", 128), ("int8", -129), ("int16", 2**15), ("int32", 2**31), ("int32", -(2**31) - 1), ("int64", 2**63)),
        *(("uint16", -1), ("uint16", 2**16)),
        *(("int8", "1"), ("int32", None), ("float64", "x"), ("uuid", None), ("uuid", "text")),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_a_value_outside_of_its_type_is_not_written(version: int, name: str, value: object) -> None:
    with pytest.raises(EncodeError, match=f"Numbers v{version}: "):
        encoded(numbers(**{name: value}), version)


@pytest.mark.parametrize("name", ["string", "data"])
@pytest.mark.parametrize("version", [0, 1])
def test_null_is_not_written_where_there_is_none(version: int, name: str) -> None:
    with pytest.raises(EncodeError, match=f"Texts v{version}: "):
        encoded(texts(**{name: None}), version)


def test_a_plain_string_over_32767_bytes_is_not_written() -> None:
    assert len(encoded(texts(string="x" * 32_767), 0)) == 32_767 + 2 + 14
    with pytest.raises(EncodeError, match="Texts v0: "):
        encoded(texts(string="x" * 32_768), 0)


@pytest.mark.parametrize("version", [0, 1])
def test_text_that_utf8_cannot_hold_is_not_written(version: int) -> None:
    with pytest.raises(EncodeError, match=f"Texts v{version}: "):
        encoded(texts(string="\ud800"), version)


@pytest.mark.parametrize(("version", "prefix"), [(0, b"\0\x01"), (1, b"\x02")])
def test_text_that_is_not_utf8_is_not_read(version: int, prefix: bytes) -> None:
    out = prefix + b"\xff" + encoded(texts(), version)[len(prefix) - 1 :]
    with pytest.raises(DecodeError, match=f"Texts v{version}: text that is not UTF-8"):
        decode(Texts, memoryview(out), version)


@pytest.mark.parametrize(
    ("value", "golden"),
    [
        *((0, b"\0"), (1, b"\1"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (16_383, b"\xff\x7f")),
        *((16_384, b"\x80\x80\x01"), (2**32 - 1, b"\xff\xff\xff\xff\x0f")),
    ],
)
def test_unsigned_varints_hold_seven_bits_a_byte(value: int, golden: bytes) -> None:
    out = bytearray(b"before")
    write_uvarint(out, value)
    assert out == b"before" + golden
    assert read_uvarint(memoryview(out + b"\xff"), 6) == (value, len(out))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is cut"),
        (b"\x80", "is cut"),
        (b"\xff\xff\xff\xff", "is cut"),
        (b"\xff\xff\xff\xff\x1f", "over 32 bits"),
        (b"\x80\x80\x80\x80\x80\x00", "longer than 5 bytes"),
    ],
)
def test_an_unsigned_varint_that_is_cut_or_too_long_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(DecodeError, match=match):
        read_uvarint(memoryview(data), 0)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_an_unsigned_varint_of_more_than_32_bits_is_not_written(value: int) -> None:
    with pytest.raises(EncodeError, match="is no unsigned 32-bit value"):
        write_uvarint(bytearray(), value)


@pytest.mark.parametrize(
    "section", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x02a", b"\x02\x00\x00", b"\xff\xff\xff\xff\x0f"]
)
def test_a_section_of_tagged_fields_that_is_cut_is_refused(section: bytes) -> None:
    with pytest.raises(DecodeError):
        skip_tagged_fields(memoryview(section), 0)


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(b"\xff" * 16) == "_" * 21 + "w"
    for _ in range(300):
        uuid = new_uuid()
        text = uuid_text(uuid)
        assert (len(text), parse_uuid(text)) == (22, uuid)
        assert not text.startswith("-")


@pytest.mark.parametrize(
    "text", ["", "short", "A" * 21, "A" * 23, "A" * 24, "!" * 22, "AAAAAAAAAAAAAAAAAAAAAQ==", "ä" * 22]
)
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_uuid(text)


@pytest.mark.parametrize(
    ("number", "shown"), [(2**53, 2**53), (2**53 + 1, "9007199254740993"), (-(2**63), str(-(2**63)))]
)
def test_numbers_that_javascript_lacks_are_texts(number: int, shown: object) -> None:
    assert number_json(number) == shown
