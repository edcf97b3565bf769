"""The fields of a message under the names of Kafka's definitions, as its JSON converters name them."""

from typing import Any, TypeGuard

from minibroker_protocol import primitives as p
from minibroker_protocol.json_values import camel_case
from minibroker_protocol.schema import fields_of, schema_of
from minibroker_protocol.uuids import uuid_text


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
    """Is it an array of whatever?"""
    return isinstance(value, list)


def _is_bytes(value: Any) -> TypeGuard[bytes]:
    return isinstance(value, (bytes, bytearray, memoryview))
