"""The primitive types of Kafka's protocol, the unsigned varint of the compact forms, and the text form of UUIDs.

A type is either *fixed* (described by a `struct` format letter) or *sized* (preceded by its length). Sized types have
two forms. In plain versions, the length is a signed int16 or int32, and -1 is null. In flexible versions (KIP-482), it
is an unsigned varint of length + 1, and 0 is null. The message's version decides the form, so the table lists each type
once:

========== ============================== =========================== =================================
type       plain form                     flexible form               Python value
========== ============================== =========================== =================================
BOOLEAN    1 byte, zero is false          the same                    bool
INT8..64   big-endian, two's complement   the same                    int
UINT16     big-endian                     the same                    int
FLOAT64    IEEE 754, big-endian           the same                    float
UUID       16 bytes                       the same                    bytes of length 16, zeros for none
STRING     int16 length + UTF-8           COMPACT_STRING              str, or None where nullable
BYTES      int32 length + bytes           COMPACT_BYTES               memoryview read, bytes-like written
RECORDS    int32 length + record batches  COMPACT_RECORDS             memoryview read; see `schema.Splice`
ARRAY      int32 count + elements         COMPACT_ARRAY               list, or None where nullable
========== ============================== =========================== =================================
"""

import binascii
import os
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError, EncodeError

ZERO_UUID: Final = bytes(16)
"""The topic id that means "no topic id"."""

MAX_STRING_BYTES: Final = 0x7FFF
"""The longest string that clients can read in either form, in bytes."""
_ELLIPSIS: Final = b"..."

MAX_TAGGED_FIELDS: Final = 127
"""The maximum number of tagged fields in a section; longer sections are rejected.

Each field takes time in Python, and no message declares a tenth of this number. It is the largest count that fits in
one byte.
"""

_UVARINT_MAX_BYTES: Final = 5
_UVARINT_MAX: Final = 0xFFFFFFFF


class WireType(NamedTuple):
    """A primitive type.

    `fmt` is the `struct` letter of a fixed type. For a sized type, `prefix` is the `struct` letter of the length in
    the plain form.
    """

    name: str
    default: object
    fmt: str = ""
    prefix: str = ""


BOOLEAN: Final = WireType("BOOLEAN", False, fmt="?")
INT8: Final = WireType("INT8", 0, fmt="b")
INT16: Final = WireType("INT16", 0, fmt="h")
INT32: Final = WireType("INT32", 0, fmt="i")
INT64: Final = WireType("INT64", 0, fmt="q")
UINT16: Final = WireType("UINT16", 0, fmt="H")
FLOAT64: Final = WireType("FLOAT64", 0.0, fmt="d")
UUID: Final = WireType("UUID", ZERO_UUID, fmt="16s")
STRING: Final = WireType("STRING", "", prefix="h")
BYTES: Final = WireType("BYTES", b"", prefix="i")
RECORDS: Final = WireType("RECORDS", None, prefix="i")


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint. Return its value and the position after it.

    Raises:
        DecodeError: the varint is truncated, is longer than 5 bytes, or exceeds 32 bits.
    """
    value = shift = 0
    for index in range(position, position + _UVARINT_MAX_BYTES):
        if index >= len(buffer):
            raise DecodeError(f"unsigned varint at byte {position} is cut")
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            if value > _UVARINT_MAX:
                raise DecodeError(f"unsigned varint at byte {position} is over 32 bits: {value}")
            return value, index + 1
        shift += 7
    raise DecodeError(f"unsigned varint at byte {position} is longer than {_UVARINT_MAX_BYTES} bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint.

    Raises:
        EncodeError: `value` is negative or exceeds 32 bits.
    """
    if not 0 <= value <= _UVARINT_MAX:
        raise EncodeError(f"{value} is no unsigned 32-bit value")
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """Skip a section of unknown tagged fields (KIP-482). Return the position after the section.

    Raises:
        DecodeError: the section is truncated, or has more than `MAX_TAGGED_FIELDS` fields.
    """
    start = position
    count, position = read_uvarint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise DecodeError(too_many_tagged_fields(buffer, start))
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise DecodeError(f"tagged field: size {size} passes the end")
    return position


def too_many_tagged_fields(buffer: memoryview, position: int) -> str:
    """Return the error message for a section at `position` with more than `MAX_TAGGED_FIELDS` fields."""
    count, _ = read_uvarint(buffer, position)
    return f"{count} tagged fields in one section, more than {MAX_TAGGED_FIELDS}"


def shorten_text(text: bytes) -> bytes:
    """Shorten UTF-8 text to `MAX_STRING_BYTES` bytes, including an ellipsis, without splitting a character."""
    start = text[: MAX_STRING_BYTES - len(_ELLIPSIS)]
    return start.decode(errors="ignore").encode() + _ELLIPSIS


_BYTES: Final = 16
_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def new_uuid() -> bytes:
    """Return a random UUID that is not one of Kafka's reserved values and whose text does not start with a dash."""
    while True:
        uuid = os.urandom(_BYTES)
        if any(uuid[:-1]) and not uuid_text(uuid).startswith("-"):
            return uuid


def uuid_text(uuid: bytes) -> str:
    """Return Kafka's text form of a 16-byte UUID: URL-safe Base64 without padding, 22 characters."""
    return binascii.b2a_base64(uuid, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID's text form.

    Raises:
        ValueError: the text is not a UUID.
    """
    uuid = binascii.a2b_base64(text.encode().translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    if len(uuid) != _BYTES:
        raise ValueError(f"{text!r} is not a UUID")
    return uuid
