"""Avro's binary data becomes JSON's values, and back."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker_registry.avro import AvroSchema, parse


def _schema(schema: Any) -> AvroSchema:
    return parse(json.dumps(schema), {})


def _record(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": type_} for name, type_ in types.items()]}


_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
_LIST = {
    "type": "record",
    "name": "L",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "L"], "default": None}],
}


@pytest.mark.parametrize(
    ("schema", "value", "payload"),
    [
        ("null", None, b""),
        ("boolean", True, b"\x01"),
        ("int", -1, b"\x01"),
        ("int", 2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
        ("long", -(2**63), b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("float", 1.5, b"\x00\x00\xc0\x3f"),
        ("double", -0.1, b"\x9a\x99\x99\x99\x99\x99\xb9\xbf"),
        ("string", "é", b"\x04\xc3\xa9"),
        ("bytes", "é\x00", b"\x04\xe9\x00"),
        ({"type": "fixed", "name": "F", "size": 2}, "é\x00", b"\xe9\x00"),
        (_ENUM, "B", b"\x02"),
        ({"type": "array", "items": "int"}, [1, 2], b"\x04\x02\x04\x00"),
        ({"type": "array", "items": "int"}, [], b"\x00"),
        ({"type": "map", "values": "int"}, {"a": 1}, b"\x02\x02a\x02\x00"),
        (["null", "string"], "a", b"\x02\x02a"),
        (["null", "string"], None, b"\x00"),
        (_record(a="int", b="string"), {"a": 1, "b": "x"}, b"\x02\x02x"),
        (_LIST, {"v": 1, "next": {"v": 2, "next": None}}, b"\x02\x02\x04\x00"),
        ({"type": "int", "logicalType": "date"}, 19_000, b"\xf0\xa8\x02"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\x04\xd2", b"\x04\x04\xd2"),
    ],
)
def test_values_and_their_bytes(schema: Any, value: Any, payload: bytes) -> None:
    parsed = _schema(schema)
    assert parsed.encode(value) == payload
    assert parsed.decode(payload) == value


def test_blocks_with_their_sizes_are_read() -> None:
    assert _schema({"type": "array", "items": "int"}).decode(b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]
    assert _schema({"type": "map", "values": "int"}).decode(b"\x01\x06\x02a\x02\x00") == {"a": 1}


def test_a_missing_field_gets_its_default() -> None:
    fields = [
        {"name": "a", "type": "int", "default": 7},
        {"name": "b", "type": "double", "default": 1},
        {"name": "c", "type": ["null", "string"], "default": None},
        {"name": "d", "type": "bytes", "default": "\u00ff"},
    ]
    schema = _schema({"type": "record", "name": "R", "fields": fields})
    assert schema.decode(schema.encode({})) == {"a": 7, "b": 1.0, "c": None, "d": "\u00ff"}


def test_a_value_of_a_union_goes_to_the_first_branch_that_it_fits_or_to_the_one_it_names() -> None:
    records = [{**_record(a="string"), "name": name} for name in ("n.X", "n.Y")]
    schema = _schema(["null", "int", "double", "string", _ENUM, *records])
    assert schema.encode(1) == b"\x02\x02"
    assert schema.encode(1.5)[:1] == b"\x04"
    assert schema.encode(2**40)[:1] == b"\x04"
    assert schema.encode("A") == b"\x06\x02A"
    assert schema.encode({"E": "A"}) == b"\x08\x00"
    assert schema.encode({"a": "x"}) == b"\x0a\x02x"
    assert schema.encode({"Y": {"a": "x"}}) == b"\x0c\x02x"
    assert schema.encode({"n.Y": {"a": "x"}}) == b"\x0c\x02x"


def test_bytes_and_whole_floats_are_taken() -> None:
    assert _schema("bytes").encode(b"\xff") == b"\x02\xff"
    assert _schema("int").encode(2.0) == b"\x04"


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ("int", "x", "The value: 'x' is not of type int"),
        ("int", True, "True is not of type int"),
        ("int", 2**31, "is not of type int"),
        ("int", 1.5, "1.5 is not of type int"),
        ("long", 2**63, "is not of type long"),
        ("float", 1e300, "1e.300 is not of type float"),
        ("string", 1, "1 is not of type string"),
        ("string", "\ud800", "is not of type string"),
        ("bytes", "\u0100", "is not of type bytes"),
        ({"type": "fixed", "name": "F", "size": 2}, "x", "of type fixed with 2 bytes"),
        (_ENUM, "C", "'C' is not a symbol of E"),
        ({"type": "array", "items": "int"}, "x", "'x' is not an array"),
        ({"type": "map", "values": "int"}, [], "is not a map"),
        (_record(a="int"), [], "is not a record R"),
        (_record(a="int"), {}, "its field 'a' is missing"),
        (_record(a="int"), {"a": 1, "b": 2}, "has no field 'b'"),
        (
            _record(a={"type": "array", "items": _record(b="int") | {"name": "Q"}}),
            {"a": [{"b": 1}, {"b": "x"}]},
            r"a\[1\]\.b: 'x'",
        ),
        (_record(a={"type": "map", "values": "int"}), {"a": {"k": "x"}}, r"a\['k'\]: 'x'"),
        (_record(a=["null", "int"]), {"a": "x"}, "a: 'x' is not of type int"),
        (_record(a=["int", "string"]), {"a": []}, "in the union of int, string"),
        ("null", object(), "is not of type null"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(schema: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _schema(schema).encode(value)


@pytest.mark.parametrize(
    ("schema", "payload", "message"),
    [
        ("null", b"\x00", "1 bytes are left"),
        ("int", b"", "cut short at byte 0"),
        ("int", b"\xff\xff\xff\xff\x7f", "too large for an int"),
        ("long", b"\xff" * 11, "more than 10 bytes"),
        ("boolean", b"\x02", "is no boolean"),
        ("double", b"\x00" * 7, "too early"),
        ("string", b"\x04a", "ends 1 bytes too early"),
        ("string", b"\x01", "is negative"),
        ("string", b"\x02\xff", "utf-8"),
        (_ENUM, b"\x04", "is not one of 2 symbols"),
        (["null"], b"\x01", "is not one of 1 branches"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "more values than its bytes"),
        (_LIST, b"\x02\x02" * 5_000 + b"\x02\x00", "nested too deeply"),
    ],
)
def test_a_payload_that_is_no_data_of_the_schema_is_refused(schema: Any, payload: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _schema(schema).decode(payload)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
}


@st.composite
def _data(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a type and a value of it."""
    names = draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=4))
    fields: list[dict[str, Any]] = []
    value: dict[str, Any] = {}
    for index, name in enumerate(names):
        shape = draw(st.sampled_from(["plain", "array", "map", "null or"]))
        inner = _VALUES[name]
        type_, values = {
            "plain": (name, inner),
            "array": ({"type": "array", "items": name}, st.lists(inner, max_size=3)),
            "map": ({"type": "map", "values": name}, st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)),
            "null or": (["null", name], st.none() | inner),
        }[shape]
        fields.append({"name": f"f{index}", "type": type_})
        value[f"f{index}"] = draw(values)
    return {"type": "record", "name": "R", "fields": fields}, value


@settings(max_examples=200)
@given(_data())
def test_fastavro_reads_and_writes_the_same_bytes(data: tuple[Any, Any]) -> None:
    schema, value = data
    payload = _schema(schema).encode(value)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, value)
    assert payload == written.getvalue()
    assert fastavro.schemaless_reader(io.BytesIO(payload), schema, None) == value
    assert _schema(schema).decode(payload) == value


def test_a_long_array_of_values_that_may_be_null_is_written() -> None:
    schema = parse(json.dumps({"type": "array", "items": ["null", "int"]}), {})
    values = [None, *range(150_000)]
    assert schema.decode(schema.encode(values)) == values
