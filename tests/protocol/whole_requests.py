"""Requests with a value in every field."""

import random
from typing import Any, Final

from minibroker_protocol.primitives import WireType
from minibroker_protocol.schema import Field, fields_of

_OF_TYPE: Final[dict[str, Any]] = {"RECORDS": b"", "BYTES": b"abc", "BOOLEAN": True}


def a_request(cls: type[Any], version: int, chance: random.Random, count: int = 2) -> Any:
    """Return a request with `count` elements in each of its arrays, and two in each nested array."""
    return cls(**{f.name: _value(f, version, chance, count) for f in fields_of(cls) if version in f.present})


def _value(field: Field, version: int, chance: random.Random, count: int) -> Any:
    if field.is_array:
        return [_one_value(field, version, chance) for _ in range(count)]
    return _one_value(field, version, chance)


def _one_value(field: Field, version: int, chance: random.Random) -> Any:
    kind = field.kind
    if not isinstance(kind, WireType):
        return a_request(kind, version, chance)
    if kind.name in _OF_TYPE:
        return _OF_TYPE[kind.name]
    if kind.name == "UUID":
        return chance.randbytes(16)
    if kind.name == "STRING":
        return f"name{chance.randrange(10**12)}"
    if kind.name in {"INT32", "INT64"}:
        return chance.randrange(10**9)
    return 1 if field.name in {"acks", "key_type", "security_protocol"} else chance.randrange(1, 100)
