"""Schemas that are made to take much work are refused, or answered in bounded CPU time."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from minibroker_registry import avro, json_schema
from minibroker_registry.schema import InvalidSchemaError, Parsed
from tests.sweeps import one_in

_CPU_SECONDS: Final = 3.0
"""What a step may take here: three times the aim, since a busy machine's threads slow each other down."""
_MEGABYTE: Final = 1_000_000
_SLOW: Final = {"a union of many records", "oneOf, doubled", "many patterns", "many branches"}
"""What is much like another case and takes seconds: `make torture` alone runs it."""

Step = Callable[[], object]


def _run(step: Step) -> object:
    """Run a step, and return its result or its ValueError."""
    begin = time.thread_time()
    try:
        result: object = step()
    except ValueError as error:
        result = error
    assert time.thread_time() - begin < _CPU_SECONDS
    return result


def _rows(cases: Mapping[str, object]) -> list[Any]:
    return one_in(3, [pytest.param(name, marks=pytest.mark.torture if name in _SLOW else ()) for name in cases])


def _doubled(word: str, end: Any) -> dict[str, Any]:
    """Return a schema of 30 levels, each of which refers to the next one twice."""
    levels = {f"d{n}": {word: [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(30)}
    return {"$ref": "#/definitions/d0", "definitions": {**levels, "d30": end}}


def _doubled_properties(end: Any) -> dict[str, Any]:
    levels = {f"d{n}": {"properties": {name: {"$ref": f"#/definitions/d{n + 1}"} for name in "ab"}} for n in range(30)}
    return {"$ref": "#/definitions/d0", "definitions": {**levels, "d30": end}}


def _chain(length: int) -> dict[str, Any]:
    levels = {f"d{n}": {"properties": {"a": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(length)}
    return {"$ref": "#/definitions/d0", "definitions": {**levels, f"d{length}": {"type": "string"}}}


def _records(count: int) -> list[Any]:
    fields = [[{"name": "a", "type": f"R{n + 1}"}, {"name": "b", "type": ["null", f"R{n + 1}"]}] for n in range(count)]
    records = [{"type": "record", "name": f"R{n}", "fields": members} for n, members in enumerate(fields)]
    return [*records, {"type": "record", "name": f"R{count}", "fields": [{"name": "x", "type": "string"}]}]


def _recursive_default() -> Any:
    branches = [f"S{n}" for n in range(30)]
    types = [
        {
            "type": "record",
            "name": name,
            "fields": [{"name": "f", "type": {"type": "map", "values": ["null", *branches]}}],
        }
        for name in branches
    ]
    default: dict[str, Any] = {"f": {"f": 1}}
    for _ in range(40):
        default = {"f": {"f": default}}
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": types, "default": default}]}


_REFUSED: Final = {
    "avro: 10 MB": (avro.parse, '"' + "x" * 10 * _MEGABYTE + '"'),
    "avro: depth": (avro.parse, "[" * 100_000),
    "avro: depth of objects": (avro.parse, '{"type":"array","items":' * 30_000),
    "avro: depth of types": (avro.parse, '{"type":"array","items":' * 250 + '"int"' + "}" * 250),
    "avro: depth by names": (avro.parse, json.dumps(_records(5_000))),
    "avro: comments": (avro.parse, "/*" * 400_000),
    "avro: strings": (avro.parse, '"\\"' * 300_000 + "/"),
    "avro: digits": (avro.parse, f'{{"type":"int","x":{"9" * 100_000}}}'),
    "avro: a default of many types": (avro.parse, json.dumps(_recursive_default())),
    "json: 10 MB": (json_schema.parse, json.dumps({"title": "x" * 10 * _MEGABYTE})),
    "json: many values": (json_schema.parse, '{"x":[' + "[]," * 60_000 + "[]]}"),
    "json: depth": (json_schema.parse, '{"not":' * 100_000),
    "json: depth of unknown keywords": (json_schema.parse, '{"x":' + "[" * 300 + "]" * 300 + "}"),
    "json: a reference by HTTP": (json_schema.parse, '{"$ref":"http://127.0.0.1:9/x.json"}'),
    "json: a reference to a file": (json_schema.parse, '{"$ref":"file:///etc/hostname"}'),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_it_is_refused_soon(name: str) -> None:
    parse, text = _REFUSED[name]
    assert isinstance(_run(lambda: parse(text, {})), InvalidSchemaError)


_AVRO: Final = {
    "a union of many records": [{"type": "record", "name": f"R{n}", "fields": []} for n in range(8_000)],
    "records in common": _records(30),
    "many fields, twice": [
        {"type": "record", "name": f"R{n}", "fields": [{"name": f"f{m}", "type": "string"} for m in range(150)]}
        for n in range(60)
    ],
    "equal definitions": [
        {"type": "record", "name": "Big", "fields": [{"name": f"f{n}", "type": "string"} for n in range(4_000)]},
        {
            "type": "record",
            "name": "H",
            "fields": [
                {"name": f"g{n}", "type": {"type": "record", "name": "Q", "fields": [{"name": "x", "type": "Big"}]}}
                for n in range(2_000)
            ],
        },
    ],
    "a huge precision": {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10**15},
}


@pytest.mark.parametrize("name", _rows(_AVRO))
def test_an_avro_schema_is_compared_soon(name: str) -> None:
    text = json.dumps(_AVRO[name])
    old, new = avro.parse(text, {}), avro.parse(text.replace("string", "long"), {})
    assert isinstance(_run(lambda: old.normalized), str)
    assert len(json.dumps(_run(lambda: new.incompatibilities(old)))) < _MEGABYTE


def test_an_avro_value_that_almost_fits_many_branches_is_refused_soon() -> None:
    names = [f"S{n}" for n in range(30)]
    branches = [
        {
            "type": "record",
            "name": name,
            "fields": [{"name": "f", "type": ["null", *names]}, {"name": "z", "type": "int"}],
        }
        for name in names
    ]
    value: Any = {"f": None, "z": "no number"}
    for _ in range(30):
        value = {"f": value, "z": 1}
    schema = avro.parse(json.dumps(branches), {})
    assert isinstance(_run(lambda: schema.encode(value)), ValueError)


_JSON: Final[dict[str, dict[str, Any]]] = {
    "allOf, doubled": _doubled("allOf", {"type": "string"}),
    "anyOf, doubled": _doubled("anyOf", {"type": "string"}),
    "oneOf, doubled": _doubled("oneOf", {"type": "string"}),
    "properties, doubled": _doubled_properties({"type": "string"}),
    "a chain": _chain(3_000),
    "a chain of references": {
        "$ref": "#/definitions/d0",
        "definitions": {**{f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(5_000)}, "d5000": {}},
    },
    "a circle of references": {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
    },
    "itself": {"$ref": "#"},
    "patterns": {
        "type": ["object", "string"],
        "pattern": "^(a+)+$",
        "patternProperties": {"^(a|aa)+$": {}, "^(x*)*y$": {}},
        "properties": {"s": {"pattern": "(.*a){20}"}},
        "additionalProperties": False,
    },
    "many patterns": {"patternProperties": {f"(a{{{n % 900}}})x{n}": {"type": "string"} for n in range(5_000)}},
    "many branches": {"oneOf": [{"properties": {f"a{n}": {"type": "string"}}} for n in range(3_000)]},
    "large branches": {
        "oneOf": [
            {"properties": {f"a{m}": {"maxLength": m} for m in range(150)}, "minProperties": n} for n in range(60)
        ]
    },
    "many types": {"type": ["string"] * 40_000},
    "exponents": {"multipleOf": 1, "maximum": 10**4_000},
    "negations": json.loads('{"not":' * 190 + "{}" + "}" * 190),
}


@pytest.mark.parametrize("name", _rows(_JSON))
def test_a_json_schema_is_compared_and_applied_soon(name: str) -> None:
    text = json.dumps(_JSON[name]).replace('"multipleOf": 1', '"multipleOf": 1e-999999999')
    old = _run(lambda: json_schema.parse(text, {}))
    new = _run(lambda: json_schema.parse(text.replace("string", "integer"), {}))
    if not isinstance(old, Parsed) or not isinstance(new, Parsed):
        assert "too much work" in f"{old} {new}"  # A slow machine refuses some of them.
        return
    assert isinstance(_run(lambda: old.normalized), str)
    assert len(json.dumps(_run(lambda: new.incompatibilities(old)))) < _MEGABYTE
    deep: Any = {}
    for _ in range(40):
        deep = {"a": deep, "b": 1}
    for value in ("a" * 5_000 + "!", {"s": "a" * 5_000 + "!", "a" * 40 + "!": 1}, deep, list(range(2_000))):
        assert isinstance(_run(lambda value=value: old.encode(value)), bytes | ValueError)  # type: ignore[misc] # a step


def test_a_circle_of_references_is_compatible_with_itself_alone() -> None:
    circle = json_schema.parse(json.dumps(_JSON["a circle of references"]), {})
    assert circle.incompatibilities(circle) == []
    assert len(circle.incompatibilities(json_schema.parse('{"type":"string"}', {}))) == 1


def test_patterns_take_linear_time() -> None:
    schema = json_schema.parse(json.dumps(_JSON["patterns"]), {})
    assert schema.encode("a" * 5_000) == b'"' + b"a" * 5_000 + b'"'
    with pytest.raises(ValueError, match="does not match"):
        schema.encode("a" * 5_000 + "!")
    with pytest.raises(ValueError, match="was unexpected"):
        schema.encode({"a" * 5_000 + "!": 1})
    with pytest.raises(ValueError, match="does not match"):
        schema.encode({"s": "b" * 5_000})
