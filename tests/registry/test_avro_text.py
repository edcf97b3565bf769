"""Avro schemas are stored as Java's Avro prints them. The texts come from its release 1.12.1."""

import json
from typing import Any

import pytest

from minibroker_registry.avro import parse
from minibroker_registry.schema import InvalidSchemaError


def _record(*fields: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", **properties, "fields": list(fields)}


_CANONICAL = [
    pytest.param('{"type":"string"}', '"string"', id="a primitive without properties is a word"),
    pytest.param(' ["null" , {"type":"int"}]', '["null","int"]', id="a union"),
    pytest.param('/* L */ {"type": "int", // x\n "u": "http://a"}', '{"type":"int","u":"http://a"}', id="comments"),
    pytest.param(
        '{"type":"string","x":1.10,"y":1e2,"z":1e30,"w":12345678901234567890123,"n":null,"d":0.00012345}',
        '{"type":"string","x":1.1,"y":100.0,"z":1.0E30,"w":12345678901234567890123,"n":null,"d":1.2345E-4}',
        id="numbers",
    ),
    pytest.param(
        '{"type":"string","x":"\\u001f\\t\\u00e9\\/\\""}', '{"type":"string","x":"\\u001F\\té/\\""}', id="escapes"
    ),
    pytest.param(
        json.dumps(
            {
                "zz": 1,
                "aliases": ["a", ".b", "c.d", "x.e"],
                "fields": [
                    {
                        "type": "int",
                        "q": 1,
                        "aliases": ["g"],
                        "order": "descending",
                        "default": 1,
                        "doc": "d",
                        "name": "f",
                    }
                ],
                "doc": "",
                "namespace": "x",
                "name": "R",
                "type": "record",
            }
        ),
        '{"type":"record","name":"R","namespace":"x","doc":"","fields":[{"name":"f","type":"int","doc":"d","default":1,'
        '"order":"descending","aliases":["g"],"q":1}],"zz":1,"aliases":["a","b","c.d","e"]}',
        id="order of properties",
    ),
    pytest.param(
        json.dumps(
            _record(
                {"name": "a", "type": {"type": "enum", "name": "m.E", "symbols": ["A"], "default": "A", "doc": "d"}},
                {"name": "b", "type": "m.E"},
                {"name": "c", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 3}},
                {"name": "d", "type": {"type": "fixed", "name": "G", "size": 3}},
                {"name": "e", "type": ["null", "G"]},
                namespace="n",
            )
        ),
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"enum","name":"E","namespace":'
        '"m","doc":"d","symbols":["A"],"default":"A"}},{"name":"b","type":"m.E"},{"name":"c","type":{"type":"fixed",'
        '"name":"F","namespace":"","size":3}},{"name":"d","type":{"type":"fixed","name":"G","size":3}},'
        '{"name":"e","type":["null","G"]}]}',
        id="namespaces",
    ),
    pytest.param(
        json.dumps(_record({"name": "b", "type": "L"}, {"name": "a", "type": _record(name="L")}, name="n.R")),
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"b","type":{"type":"record","name":"L",'
        '"fields":[]}},{"name":"a","type":"L"}]}',
        id="a name that is used before it is defined",
    ),
    pytest.param(
        json.dumps(
            _record({"name": "a", "type": _record(name="Q")}, {"name": "b", "type": _record(name="Q", doc="x")})
        ),
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"record","name":"Q","fields":[]}},'
        '{"name":"b","type":"Q"}]}',
        id="an equal definition is a reference",
    ),
    pytest.param(
        '{"type":"record","name":"a.int","fields":[{"name":"x","type":["null","a.int"]}]}',
        '{"type":"record","name":"int","namespace":"a","fields":[{"name":"x","type":["null","a.int"]}]}',
        id="a name that is a type word",
    ),
    pytest.param(
        json.dumps(
            _record({"name": "c", "type": "double", "default": "NaN"}, {"name": "d", "type": "float", "default": "1.5"})
        ),
        '{"type":"record","name":"R","fields":[{"name":"c","type":"double","default":"NaN"},'
        '{"name":"d","type":"float","default":1.5}]}',
        id="defaults of floats as strings",
    ),
    pytest.param('{"type":"error","name":"E","fields":[]}', '{"type":"error","name":"E","fields":[]}', id="an error"),
    pytest.param("[]", "[]", id="an empty union"),
]


@pytest.mark.parametrize(("text", "canonical"), _CANONICAL)
def test_the_stored_text_is_javas_print(text: str, canonical: str) -> None:
    schema = parse(text, {})
    assert schema.canonical == canonical
    assert parse(canonical, {}).canonical == canonical


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        pytest.param(
            json.dumps(
                _record({"name": "a", "type": "int", "z": 1, "b": {"y": 1, "x": [2]}}, doc="", aliases=["z", "A"])
            ),
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","b":{"x":[2],"y":1},"z":1}],'
            '"aliases":["A","z"]}',
            id="properties and aliases are sorted, and empty documentation is dropped",
        ),
        pytest.param(
            json.dumps({"type": "bytes", "a": 1, "scale": 1, "logicalType": "decimal", "precision": 4}),
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":1,"a":1}',
            id="a logical type comes first",
        ),
        pytest.param(
            json.dumps({"type": "string", "b": 1, "scale": 9, "logicalType": "decimal", "precision": 4}),
            '{"type":"string","b":1,"logicalType":"decimal","precision":4,"scale":9}',
            id="an invalid logical type does not",
        ),
        pytest.param(
            json.dumps(
                _record({"name": "a", "type": {"type": "map", "values": "double"}, "default": {"z": 1, "b": 2}})
            ),
            '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"map","values":"double"},'
            '"default":{"b":2.0,"z":1.0}}]}',
            id="defaults have the numbers of their type, and sorted keys",
        ),
        pytest.param(
            json.dumps(
                _record(
                    {"name": "a", "type": ["double", "null"], "default": 1}, {"name": "s", "type": "int", "doc": ""}
                )
            ),
            '{"type":"record","name":"R","fields":[{"name":"a","type":["double","null"],"default":1.0},'
            '{"name":"s","type":"int","doc":""}]}',
            id="the default of a union",
        ),
    ],
)
def test_normalize(text: str, normalized: str) -> None:
    assert parse(text, {}).normalized == normalized


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "not JSON"),
        ("1", "not yet supported"),
        ("{}", "No type"),
        ('{"type":{"type":"string"}}', "No type"),
        ('"nope"', "Undefined schema: nope"),
        ('{"type":"array"}', "no items type"),
        ('{"type":"map"}', "no values type"),
        ('{"type":"record","name":"R"}', "has no fields"),
        ('{"type":"record","fields":[]}', "No name"),
        ('{"type":"record","name":"string","fields":[]}', "named after primitives"),
        ('{"type":"record","name":"a..R","fields":[]}', "Empty name"),
        ('{"type":"record","name":"R","namespace":"a-b","fields":[]}', "Illegal character in name 'a-b'"),
        ('{"type":"record","name":"R","fields":[{"type":"int"}]}', "No field name"),
        ('{"type":"record","name":"R","fields":[{"name":"a"}]}', "No field type"),
        ('{"type":"record","name":"R","fields":[{"name":"1a","type":"int"}]}', "Illegal character in name '1a'"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
            "Duplicate field a",
        ),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int","order":"up"}]}', "order of field R.a"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":"b"}]}', "aliases"),
        ('{"type":"record","name":"n.R","fields":[{"name":"a","type":"Q"}]}', "Undefined schema: n.Q"),
        ('["int",["null"]]', "Nested union"),
        ('["int","int"]', "Duplicate in union: int"),
        ('{"type":"enum","name":"E"}', "no symbols"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "Duplicate enum symbol: A"),
        ('{"type":"enum","name":"E","symbols":["a b"]}', "Illegal character"),
        ('{"type":"enum","name":"E","symbols":[1]}', "not a string"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "Enum Default: B"),
        ('{"type":"fixed","name":"F","size":"1"}', "no size"),
        ('{"type":"fixed","name":"F","size":-1}', "between 0 and"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"R","size":1}}]}',
            "redefine: R",
        ),
    ],
)
def test_what_is_no_schema_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        parse(text, {})


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("int", 1.5),
        ("int", 2**31),
        ("long", 2**63),
        ("string", None),
        ("boolean", 0),
        ("null", "null"),
        ("double", "one"),
        ("bytes", 1),
        (["null", "string"], 1),
        ({"type": "array", "items": "int"}, ["a"]),
        ({"type": "map", "values": "int"}, {"a": "b"}),
        (_record({"name": "x", "type": "int"}, name="Q"), {}),
        (_record({"name": "x", "type": "int"}, name="Q"), {"x": "y"}),
    ],
)
def test_a_default_of_another_type_is_refused_unless_it_is_stored_already(type_: Any, default: Any) -> None:
    text = json.dumps(_record({"name": "a", "type": type_, "default": default}))
    with pytest.raises(InvalidSchemaError, match="a"):
        parse(text, {})
    if default != "one":
        assert json.loads(parse(text, {}, is_new=False).canonical)["fields"][0]["default"] == default


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("int", -(2**31)),
        ("double", 1),
        (["null", "string"], None),
        (["null", "string"], "of another branch than the first"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "no symbol"),
        (_record({"name": "x", "type": "int", "default": 4}, name="Q"), {}),
    ],
)
def test_a_default_may_be(type_: Any, default: Any) -> None:
    text = json.dumps(_record({"name": "a", "type": type_, "default": default}))
    assert json.loads(parse(text, {}).canonical)["fields"][0]["default"] == default


def test_references_are_known_by_name_and_the_resolved_text_defines_them() -> None:
    inner = '{"type":"enum","name":"E","namespace":"n","symbols":["A"]}'
    middle = '{"type":"record","name":"M","namespace":"n","fields":[{"name":"e","type":"E"}]}'
    outer = '{"type":"record","name":"O","fields":[{"name":"m","type":"n.M"},{"name":"e","type":"n.E"}]}'
    schema = parse(outer, {"n.E": inner, "n.M": middle})
    assert schema.canonical == outer
    assert schema.normalized == outer
    assert schema.formatted("resolved") == (
        '{"type":"record","name":"O","fields":[{"name":"m","type":{"type":"record","name":"M","namespace":"n","fields":'
        '[{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}}]}},{"name":"e","type":"n.E"}]}'
    )
    assert schema.formatted("unknown") == outer
    with pytest.raises(InvalidSchemaError, match=r"Undefined schema: n\.E"):
        parse(outer, {"n.M": '{"type":"record","name":"M","namespace":"n","fields":[]}'})
