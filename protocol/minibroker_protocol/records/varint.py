"""Zig-zag variable-length integers, as in v2 records (`ByteUtils.readVarint`, from Protocol Buffers).

Zig-zag maps 0, -1, 1, -2 ... to 0, 1, 2, 3 ..., so a raw value is even for non-negative numbers and odd for negative
ones. The raw value is written in groups of seven bits, lowest first, with the high bit set on every byte but the last.
An int32 takes at most 5 bytes, an int64 at most 10. Bits beyond the width are dropped, as by Java's shifts.
"""

from typing import Final

from minibroker_protocol.errors import DecodeError, EncodeError

MAX_VARINT_SIZE: Final = 5
MAX_VARLONG_SIZE: Final = 10

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

CONTINUES: Final = 0x80
"""The bit that is set if another byte follows."""
_SEVEN_BITS: Final = 0x7F
_UINT32: Final = 2**32 - 1
_UINT64: Final = 2**64 - 1

_ONE_BYTE: Final = tuple(bytes((raw,)) for raw in range(CONTINUES))


def _encode_raw(raw: int) -> bytes:
    if raw < CONTINUES:
        return _ONE_BYTE[raw]
    out = bytearray()
    while raw >= CONTINUES:
        out.append(raw & _SEVEN_BITS | CONTINUES)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode an int32.

    Raises:
        EncodeError: the value is out of range.
    """
    if not INT32_MIN <= value <= INT32_MAX:
        raise EncodeError(f"varint: {value} is not an int32")
    return _encode_raw((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """Encode an int64.

    Raises:
        EncodeError: the value is out of range.
    """
    if not INT64_MIN <= value <= INT64_MAX:
        raise EncodeError(f"varlong: {value} is not an int64")
    return _encode_raw((value << 1) ^ (value >> 63))


def finish_varint(buffer: bytes | bytearray | memoryview, position: int, first: int) -> tuple[int, int]:
    """Finish decoding a varint of several bytes. Return its raw value and the position after it.

    `first` is the byte just before `position`; its high bit is set. Callers decode the usual varint of a single byte
    themselves.

    Raises:
        DecodeError: the value is longer than five bytes.
        IndexError: the value is truncated.
    """
    return _finish(buffer, position, first, MAX_VARINT_SIZE, _UINT32)


def finish_varlong(buffer: bytes | bytearray | memoryview, position: int, first: int) -> tuple[int, int]:
    """Like `finish_varint`, but for an int64 of at most ten bytes."""
    return _finish(buffer, position, first, MAX_VARLONG_SIZE, _UINT64)


def _finish(
    buffer: bytes | bytearray | memoryview, position: int, first: int, max_size: int, mask: int
) -> tuple[int, int]:
    raw = first & _SEVEN_BITS
    for shift in range(7, 7 * max_size, 7):
        byte = buffer[position]
        position += 1
        raw |= (byte & _SEVEN_BITS) << shift
        if byte < CONTINUES:
            return raw & mask, position
    raise DecodeError(f"variable-length integer: more than {max_size} bytes")


def decode_varint(buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[int, int]:
    """Return the int32 at `position`, and the position after it.

    Raises:
        DecodeError: the value is truncated, or longer than 5 bytes.
    """
    return _decode(buffer, position, MAX_VARINT_SIZE, _UINT32)


def decode_varlong(buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[int, int]:
    """Return the int64 at `position`, and the position after it.

    Raises:
        DecodeError: the value is truncated, or longer than 10 bytes.
    """
    return _decode(buffer, position, MAX_VARLONG_SIZE, _UINT64)


def wrap_int64(value: int) -> int:
    """Return `value` wrapped to an int64, like an overflow in Java."""
    return ((value - INT64_MIN) & _UINT64) + INT64_MIN


def _decode(buffer: bytes | bytearray | memoryview, position: int, max_size: int, mask: int) -> tuple[int, int]:
    try:
        raw = buffer[position]
        position += 1
        if raw >= CONTINUES:
            raw, position = _finish(buffer, position, raw, max_size, mask)
    except IndexError:
        raise DecodeError(f"variable-length integer: cut short at byte {position}") from None
    return (raw >> 1) ^ -(raw & 1), position
