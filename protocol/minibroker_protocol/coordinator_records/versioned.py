"""Bytes that begin with their own version: an int16, then a message in that version.

Keys and values of the coordinators' topics have this form, and so has what consumers exchange through a group.
"""

import struct
from typing import Any, Final, TypeGuard, TypeVar

from minibroker_protocol import primitives as p
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.json_values import camel_case
from minibroker_protocol.schema import VersionRange, fields_of, schema_of
from minibroker_protocol.uuids import uuid_text

T = TypeVar("T")

_INT16: Final = struct.Struct(">h")
_READ_IN_NEWEST_FORM: Final[set[type[Any]]] = set()


def later_versions_only_append(cls: type[T]) -> type[T]:
    """Declare that no later version of a message takes fields away or moves them.

    A version above the highest that is known is then read as that one, and what follows is left unread.
    """
    _READ_IN_NEWEST_FORM.add(cls)
    return cls


def encode_versioned(message: object, version: int) -> bytes:
    """Return `version` and the message in it.

    EncodeError for a value that does not fit, ValueError for a version that the message does not have.
    """
    out = bytearray(_INT16.pack(version))
    encode(message, version, out, [])
    return bytes(out)


def version_of(data: bytes | bytearray | memoryview, subject: str) -> int:
    """The version that `data` begins with. DecodeError, which names `what` was expected, if it is too short."""
    if len(data) < _INT16.size:
        raise DecodeError(f"{subject}: {len(data)} bytes hold no version")
    version: int = _INT16.unpack_from(data)[0]
    return version


def decode_versioned(cls: type[T], data: bytes | bytearray | memoryview) -> T:
    """Read a message from bytes that begin with its version; bytes after its end are passed over, as Kafka does.

    Fields of bytes are views of `data`. DecodeError for a version that the message does not have (see
    `later_versions_only_append`) and for bytes that are cut short.
    """
    version, known = version_of(data, cls.__name__), schema_of(cls).versions
    if version > known.last and cls in _READ_IN_NEWEST_FORM:
        version = known.last
    if version not in known:
        raise DecodeError(f"{cls.__name__}: version {version} is unknown, {_range_text(known)}")
    message, _ = decode(cls, memoryview(data), version, _INT16.size)
    return message


def _range_text(known: VersionRange) -> str:
    if known.first == known.last:
        return f"only {known.first} is known"
    return f"{known.first} to {known.last} are known"


def has_version(cls: type[Any], version: int) -> bool:
    """Whether a message is declared in this version."""
    return version in schema_of(cls).versions


def fields_by_name(message: Any, version: int) -> dict[str, Any]:
    """The fields that the version has, in their order; structures become dictionaries, bytes stay bytes.

    Tagged fields are left out where they say nothing. UUIDs are text, as Kafka writes them.
    """
    fields: dict[str, Any] = {}
    for field in fields_of(message.__class__):
        value = getattr(message, field.name)
        if version not in field.present or (version in field.tagged_in and value == field.default()):
            continue
        fields[camel_case(field.name)] = uuid_text(value) if field.kind is p.UUID else _plain(value, version)
    return fields


def _plain(value: Any, version: int) -> Any:
    if value is None or isinstance(value, (str, int)):
        return value
    if _is_bytes(value):
        return bytes(value)
    if is_array(value):
        return [_plain(each, version) for each in value]
    return fields_by_name(value, version)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether the value is an array."""
    return isinstance(value, list)


def _is_bytes(value: Any) -> TypeGuard[bytes]:
    return isinstance(value, (bytes, bytearray, memoryview))
