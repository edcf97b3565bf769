"""JSON Schemas are stored as they are written, and refused where Confluent's registry refuses them."""

import json
from typing import Any

import pytest

from minibroker_registry.json_schema import parse
from minibroker_registry.schema import InvalidSchemaError

_MODERN = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("text", "canonical", "normalized"),
    [
        ("true", "true", "true"),
        (
            '{ "b" : {"z": 1, "a": [ {"y": 1, "x": 2} ] }, "a": 1 }',
            '{"b":{"z":1,"a":[{"y":1,"x":2}]},"a":1}',
            '{"a":1,"b":{"a":[{"x":2,"y":1}],"z":1}}',
        ),
        (
            '{"a":1.0,"b":1e2,"c":1.10,"d":-0.0,"e":1.0E+5,"f":0.00000001,"g":12345678901234567890123,"h":1E400}',
            '{"a":1.0,"b":1E+2,"c":1.10,"d":0.0,"e":1.0E+5,"f":1E-8,"g":12345678901234567890123,"h":1E+400}',
            '{"a":1.0,"b":1E+2,"c":1.10,"d":0.0,"e":1.0E+5,"f":1E-8,"g":12345678901234567890123,"h":1E+400}',
        ),
        ('{"pattern":"a\\u001f\\u00e9\\/"}', '{"pattern":"a\\u001Fé/"}', '{"pattern":"a\\u001Fé/"}'),
        ('{"a":1,"a":2}', '{"a":2}', '{"a":2}'),
    ],
)
def test_keys_keep_their_order_and_numbers_their_digits(text: str, canonical: str, normalized: str) -> None:
    schema = parse(text, {})
    assert schema.canonical == canonical
    assert schema.normalized == normalized


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "expected an object or boolean at the root, found null"),
        (1, "found a number"),
        ([], "found an array"),
        ("", "found a string"),
        ({"type": "nope"}, "#: unknown type: .nope"),
        ({"type": ["string", 1]}, "unknown type"),
        ({"$schema": 1}, "is not a string"),
        ({"required": "x"}, "#/required: expected an array, found a string"),
        ({"required": [1]}, "#/required/0: expected a string"),
        ({"properties": []}, "#/properties: expected an object"),
        ({"properties": {"a": 1}}, "#/properties/a: expected a boolean or an object"),
        ({"minLength": "1"}, "#/minLength: expected a number"),
        ({"minLength": 1.0}, "#/minLength: expected an integer"),
        ({"multipleOf": 0}, "multipleOf should not be 0"),
        ({"exclusiveMinimum": True}, "#/exclusiveMinimum"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 1}, "expected a boolean"),
        ({"enum": 1}, "#/enum"),
        ({"allOf": {}}, "#/allOf"),
        ({"items": 1}, "#/items"),
        ({"items": [{}, 1]}, "#/items/1"),
        ({"$schema": _MODERN, "items": [{}]}, "#/items"),
        ({"$schema": _MODERN, "$defs": {"a": 1}}, "#/[$]defs/a"),
        ({"$schema": _MODERN, "dependentRequired": {"a": [1]}}, "#/dependentRequired/a/0"),
        ({"additionalProperties": 1}, "#/additionalProperties"),
        ({"dependencies": {"a": 1}}, "#/dependencies/a"),
        ({"title": 1}, "#/title"),
        ({"if": 1}, "#/if"),
        ({"not": 1}, "#/not"),
        ({"uniqueItems": 1}, "#/uniqueItems"),
        ({"pattern": "("}, "#/pattern: "),
        ({"patternProperties": {"[a": {}}}, "#/patternProperties: "),
        ({"$ref": "#/nope"}, "'#/nope' leads nowhere"),
        ({"$ref": "#nope"}, "'#nope' leads nowhere"),
        ({"$schema": _MODERN, "$ref": "#/$defs/x"}, "leads nowhere"),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "leads nowhere"),
        ({"$ref": "file:///etc/hostname"}, "leads nowhere"),
        ({"$ref": "other.json"}, "leads nowhere"),
        ({"$id": "http://h/", "allOf": [{"$ref": "http://[bad"}]}, "is not a URI"),
        ({"title": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        parse(json.dumps(schema), {})


@pytest.mark.parametrize("text", ["", "{", "nope", '{"a":NaN}', '{"a":1}x'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError, match="not JSON"):
        parse(text, {})


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://example.com/unknown", "type": "string"},
        {"definitions": {"unused": {"type": 1}}},
        {"minLength": -1},
        {"allOf": []},
        {"const": None, "default": None},
        {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}},
        {"pattern": "^(?=a)(?<!b)(?>c)\\p{IsGreek}\\u00e9*+(x)\\1$"},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema", "$schema": _MODERN},
    ],
)
def test_what_confluent_accepts_is_accepted(schema: Any) -> None:
    assert json.loads(parse(json.dumps(schema), {}).canonical) == schema


def test_names_that_begin_with_two_dollars_are_for_stored_schemas_only() -> None:
    text = '{"properties":{"$$a":{}}}'
    with pytest.raises(InvalidSchemaError, match=r"cannot start with \$\$"):
        parse(text, {})
    assert parse(text, {}, is_new=False).canonical == text


_STRING = {"type": "string"}
_ALIAS = {"definitions": {"x": {"allOf": [{"$ref": "b.json"}]}}}


@pytest.mark.parametrize(
    ("schema", "references"),
    [
        ({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": _STRING}}, {}),
        ({"$ref": "#/$defs/a", "definitions": {"a": _STRING}}, {}),
        ({"$ref": "#/allOf/1", "allOf": [{}, _STRING]}, {}),
        ({"$ref": "#x", "definitions": {"a": {"$id": "#x", **_STRING}}}, {}),
        ({"allOf": [{"$ref": "sub"}], "$id": "http://h/root", "definitions": {"a": {"$id": "sub", **_STRING}}}, {}),
        ({"$schema": _MODERN, "$ref": "#x", "$defs": {"a": {"$anchor": "x", **_STRING}}}, {}),
        ({"$ref": "a.json"}, {"a.json": _STRING}),
        ({"$ref": "a.json#/definitions/x"}, {"a.json": {"definitions": {"x": _STRING}}}),
        ({"$ref": "a.json#/definitions/x"}, {"a.json": _ALIAS, "b.json": _STRING}),
        ({"$ref": "http://h/a.json"}, {"http://h/a.json": _STRING}),
        ({"$id": "http://h/root.json", "allOf": [{"$ref": "a.json"}]}, {"a.json": _STRING}),
        ({"$ref": "http://h/other.json"}, {"a.json": {"$id": "http://h/other.json", **_STRING}}),
        ({"$schema": _MODERN, "$ref": "a.json#/$defs/x"}, {"a.json": {"definitions": {"x": _STRING}}}),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema",
                "id": "r",
                "$ref": "#/definitions/a",
                "definitions": {"a": _STRING},
            },
            {},
        ),
    ],
)
def test_references_lead_to_schemas(schema: Any, references: dict[str, Any]) -> None:
    parsed = parse(json.dumps(schema), {name: json.dumps(document) for name, document in references.items()})
    plain = parse(json.dumps(_STRING), {})
    assert plain.incompatibilities(parsed) == []
    assert parsed.incompatibilities(plain) == []
    assert parsed.incompatibilities(parse('{"type":"integer"}', {})) != []
    assert parsed.encode("text") == b'"text"'
    with pytest.raises(ValueError, match="is not of type 'string'"):
        parsed.encode(1)
