"""Hypothesis strategies for messages, derived from their declarations."""

import importlib
import pkgutil
import struct
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from minibroker.cluster.routing.routes import Route
from minibroker_protocol import coordinator_records
from minibroker_protocol import messages as messages_of_apis
from minibroker_protocol import primitives as p
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import messages_of
from minibroker_protocol.schema import Field, fields_of, schema_of

_AT_A_TIME: Final = 4
_BYTES = st.binary(max_size=40)
_OF_TYPE: dict[p.WireType, st.SearchStrategy[Any]] = {
    p.BOOLEAN: st.booleans(),
    p.FLOAT64: st.floats(allow_nan=False),
    p.UUID: st.binary(min_size=16, max_size=16),
    p.STRING: st.text(st.characters(codec="utf-8"), max_size=12),
    p.BYTES: _BYTES,
    p.RECORDS: _BYTES,
}


def message_class(route: Route, kind: str) -> type[Any]:
    """Return the "Request" or "Response" class of a route."""
    declared = messages_of(route.key)
    return declared.request if kind == "Request" else declared.response


@cache
def all_classes() -> tuple[type[Any], ...]:
    """Return all declared messages, whether served or not: requests, responses and stored records."""
    found: list[type[Any]] = []
    for package in (messages_of_apis, coordinator_records):
        for information in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            module = importlib.import_module(information.name)
            for value in vars(module).values():
                if isinstance(value, type) and value.__module__ == module.__name__:
                    with suppress(KeyError):  # Nested structures have no schema.
                        schema_of(value)
                        found.append(value)
    return tuple(found)


def all_messages() -> list[tuple[type[Any], int]]:
    """Return every declared (class, version)."""
    return [(cls, version) for cls in all_classes() for version in versions_of(cls)]


def versions_of(cls: type[Any]) -> range:
    """Return all declared versions of a class."""
    first, last = schema_of(cls).versions
    return range(first, last + 1)


def layouts() -> list[tuple[type[Any], int]]:
    """Return each (class, version) of `all_messages` whose format differs from the previous version, and each last one.

    The codec generates the functions of a version from its format only, so those of the other versions are the same.
    """
    found: list[tuple[type[Any], int]] = []
    for cls in all_classes():
        first, last = schema_of(cls).versions
        before = None
        for version in range(first, last + 1):
            layout = _layout(cls, version, cls)
            if layout != before or version == last:
                found.append((cls, version))
            before = layout
    return found


def few_at_a_time(pairs: Iterable[tuple[type[Any], int]]) -> list[Any]:
    """Return test parameters with a few versions of a class each: `cls` and `versions`.

    Hypothesis takes longer to start a test than to run it. More versions would not fit into one of its examples.
    """
    by_class: dict[type[Any], list[int]] = {}
    for cls, version in pairs:
        by_class.setdefault(cls, []).append(version)
    return [
        pytest.param(cls, some, id=f"{cls.__name__}-v{some[0]}-v{some[-1]}")
        for cls, versions in by_class.items()
        for some in (versions[at : at + _AT_A_TIME] for at in range(0, len(versions), _AT_A_TIME))
    ]


def _layout(cls: type[Any], version: int, top: type[Any]) -> tuple[Any, ...]:
    """Return whether `version` is flexible, and the name, type, nullability and tag of each of its fields."""
    rows = [
        (
            field.name,
            field.kind if isinstance(field.kind, p.WireType) else _layout(field.kind, version, top),
            version in field.nullable,
            version in field.tagged_in,
        )
        for field in fields_of(cls)
        if version in field.present
    ]
    return (version in schema_of(top).flexible, *rows)


def messages(cls: type[Any], version: int, *, top: type[Any] | None = None) -> st.SearchStrategy[Any]:
    """Generate values of `cls` whose fields are set if `version` has them, and have their defaults otherwise."""
    declared: Any = cls
    of: Any = top or cls
    return _messages(declared, version, of)


@cache
def _messages(cls: Any, version: int, top: Any) -> st.SearchStrategy[Any]:
    return st.builds(
        cls,
        **{
            field.name: _values(field, version, top) if _exists(field, version, top) else st.builds(field.default)
            for field in fields_of(cls)
        },
    )


def _exists(field: Field, version: int, top: type[Any]) -> bool:
    return version in field.present and (version not in field.tagged_in or version in schema_of(top).flexible)


def _values(field: Field, version: int, top: type[Any]) -> st.SearchStrategy[Any]:
    single = _single(field.kind, field.name, version, top)
    values = st.lists(single, max_size=3) if field.is_array else single
    return st.none() | values if version in field.nullable else values


def _single(kind: Any, name: str, version: int, top: type[Any]) -> st.SearchStrategy[Any]:
    if not isinstance(kind, p.WireType):
        return messages(kind, version, top=top)
    if name.endswith("error_code"):
        return st.sampled_from(list(ErrorCode)).map(int)
    if name.endswith("_ms"):
        return st.integers(0, 2**31 - 1)
    if kind in _OF_TYPE:
        return _OF_TYPE[kind]
    bits = 8 * struct.calcsize(">" + kind.fmt)
    return st.integers(0, 2**bits - 1) if kind.fmt.isupper() else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
