"""Avro schemas are compared as Java's SchemaCompatibility compares them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as parse_with_avro
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from minibroker_registry.avro import AvroSchema, parse
from minibroker_registry.schema import InvalidSchemaError

_ROWS: Final = [
    line.split("\t")
    for line in Path(__file__).with_name("avro_verdicts.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith(("#", "old\t"))
]
_MESSAGE: Final = re.compile(r"\{errorType:'(\w+)', description:'At '([^']*)', .*', additionalInfo:'(.*)'\}")
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def summary(messages: list[str]) -> str:
    """Return the kinds, paths and details of incompatibilities, or "ok"."""
    matches = [_MESSAGE.fullmatch(message) for message in messages]
    return "; ".join(" ".join(match.groups()) for match in matches if match) or "ok"


@pytest.mark.parametrize(("old", "new", "backward", "forward"), _ROWS)
def test_incompatibilities_are_javas(old: str, new: str, backward: str, forward: str) -> None:
    old_schema, new_schema = parse(old, {}), parse(new, {})
    assert summary(new_schema.incompatibilities(old_schema)) == backward
    assert summary(old_schema.incompatibilities(new_schema)) == forward
    assert new_schema.incompatibilities(new_schema) == []


def test_a_message_has_room_for_the_roles_of_both_schemas() -> None:
    old, new = parse('{"type":"record","name":"R","fields":[]}', {}), parse(json.dumps(_record({"a": "int"})), {})
    (message,) = new.incompatibilities(old)
    assert message % ("new", "old") == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'At '/fields/0', the field 'a' of the new schema"
        " has no default, and the old schema lacks it', additionalInfo:'a'}"
    )


def test_a_field_that_stands_for_two_of_the_writers_is_refused() -> None:
    old = parse(json.dumps(_record({"a": "int", "b": "int"})), {})
    new = _record({"a": "int"})
    new["fields"][0]["aliases"] = ["b"]
    assert parse(json.dumps(new), {}).incompatibilities(old) == [
        "Reader record field a matches multiple fields in writer record R"
    ]


def test_types_in_common_do_not_multiply_the_messages() -> None:
    def chain(end: str) -> AvroSchema:
        types: list[Any] = [_record({"a": f"R{n + 1}", "b": f"R{n + 1}"}, f"R{n}") for n in range(30)]
        return parse(json.dumps([*types, _record({"x": end}, "R30")]), {})

    assert len(chain("int").incompatibilities(chain("string"))) == 31


def _record(types: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in types.items()]}


class _Generator:
    """Draws types. Each name is defined once in a schema, and then only used."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._names: set[str] = set()

    def type(self, depth: int) -> Any:
        kinds = ["primitive", "enum", "fixed", *(["array", "map", "union", "record"] if depth else [])]
        kind = self._draw(st.sampled_from(kinds))
        if kind == "primitive":
            return self._draw(st.sampled_from(_PRIMITIVES))
        if kind in {"array", "map"}:
            return {"type": kind, "items" if kind == "array" else "values": self.type(depth - 1)}
        if kind == "union":
            branches = [self.type(depth - 1) for _ in range(self._draw(st.integers(0, 3)))]
            names = {
                branch if isinstance(branch, str) else branch.get("name", branch["type"]): branch
                for branch in branches
                if not isinstance(branch, list)
            }
            return list(names.values())
        return self._named(kind, depth)

    def _named(self, kind: str, depth: int) -> Any:
        name = kind[0].upper() + self._draw(st.sampled_from("12"))
        if name in self._names:
            return name
        self._names.add(name)
        if kind == "fixed":
            return {"type": kind, "name": name, "size": self._draw(st.integers(1, 2))}
        if kind == "enum":
            symbols = self._draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
            default = {"default": symbols[0]} if self._draw(st.booleans()) else {}
            return {"type": kind, "name": name, "symbols": symbols, **default}
        fields = [self._field(key, depth) for key in self._draw(st.lists(st.sampled_from("abc"), unique=True))]
        return {"type": kind, "name": name, "fields": fields}

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        if self._draw(st.booleans()):
            return {"name": name, "type": self.type(depth - 1)}
        return {"name": name, "type": ["null", "int"], "default": None}


@st.composite
def _schemas(draw: st.DrawFn) -> str:
    text = json.dumps(_Generator(draw).type(3))
    try:
        parse(text, {})
    except InvalidSchemaError:  # A union has two of a kind, and with the second a definition was dropped.
        reject()
    return text


@settings(max_examples=300)
@given(_schemas(), _schemas())
def test_verdicts_are_those_of_avros_own_package(old: str, new: str) -> None:
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call] # it takes nothing
    result = checker.get_compatibility(parse_with_avro(new), parse_with_avro(old))
    is_compatible = result.compatibility is SchemaCompatibilityType.compatible
    assert (parse(new, {}).incompatibilities(parse(old, {})) == []) == is_compatible
