"""Versioned messages: an int16 version, followed by a message in that version.

Keys and values of the coordinators' topics have this form. So do the messages that consumers exchange through a
group.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final, TypeGuard, TypeVar

from minibroker_protocol import primitives as p
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.json_values import camel_case
from minibroker_protocol.primitives import uuid_text
from minibroker_protocol.schema import VersionRange, fields_of, schema_of

T = TypeVar("T")

_INT16: Final = struct.Struct(">h")
_READ_IN_NEWEST_FORM: Final[set[type[Any]]] = set()


def later_versions_only_append(cls: type[T]) -> type[T]:
    """Declare that later versions of a message never remove or move fields.

    A version above the latest declared one is then read as the latest, and the remaining bytes are ignored.
    """
    _READ_IN_NEWEST_FORM.add(cls)
    return cls


def record_classes(module: Mapping[str, Any]) -> tuple[tuple[type[Any], type[Any]], ...]:
    """Return the key classes among the names of a module, each with its value class."""
    keys = [name for name in module if name.endswith("Key")]
    return tuple((module[key], module[f"{key.removesuffix('Key')}Value"]) for key in keys)


def encode_versioned(message: object, version: int) -> bytes:
    """Return an encoded version number, followed by the message in that version.

    Raises:
        EncodeError: a value does not fit its field.
        ValueError: the message has no such version.
    """
    out = bytearray(_INT16.pack(version))
    encode(message, version, out, [])
    return bytes(out)


def version_of(data: bytes | bytearray | memoryview, subject: str) -> int:
    """Return the version at the start of `data`.

    Raises:
        DecodeError: `data` is too short; the error names `subject`.
    """
    if len(data) < _INT16.size:
        raise DecodeError(f"{subject}: {len(data)} bytes hold no version")
    version: int = _INT16.unpack_from(data)[0]
    return version


def decode_versioned(cls: type[T], data: bytes | bytearray | memoryview) -> T:
    """Decode a message that is preceded by its version. As in Kafka, bytes after the message are ignored.

    Bytes fields are views of `data`.

    Raises:
        DecodeError: the message has no such version (see `later_versions_only_append`), or the bytes are truncated.
    """
    version, versions = version_of(data, cls.__name__), schema_of(cls).versions
    if version > versions.last and cls in _READ_IN_NEWEST_FORM:
        version = versions.last
    if version not in versions:
        raise DecodeError(f"{cls.__name__}: version {version} is unknown, {_range_text(versions)}")
    message, _ = decode(cls, memoryview(data), version, _INT16.size)
    return message


def _range_text(versions: VersionRange) -> str:
    if versions.first == versions.last:
        return f"only {versions.first} is known"
    return f"{versions.first} to {versions.last} are known"


def has_version(cls: type[Any], version: int) -> bool:
    """Return whether a message is declared for this version."""
    return version in schema_of(cls).versions


def fields_by_name(message: Any, version: int) -> dict[str, Any]:
    """Return the fields of a message in declaration order, by name.

    Structures become dictionaries, and bytes remain bytes. Tagged fields with their default value are omitted.
    UUIDs become text in Kafka's notation.
    """
    fields: dict[str, Any] = {}
    for field in fields_of(message.__class__):
        value = getattr(message, field.name)
        if version not in field.present or (version in field.tagged_in and value == field.default()):
            continue
        fields[camel_case(field.name)] = uuid_text(value) if field.kind is p.UUID else _plain_value(value, version)
    return fields


def _plain_value(value: Any, version: int) -> Any:
    if value is None or isinstance(value, (str, int)):
        return value
    if _is_bytes(value):
        return bytes(value)
    if is_array(value):
        return [_plain_value(element, version) for element in value]
    return fields_by_name(value, version)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether the value is an array."""
    return isinstance(value, list)


def _is_bytes(value: Any) -> TypeGuard[bytes]:
    return isinstance(value, (bytes, bytearray, memoryview))
