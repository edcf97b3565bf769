"""Data is checked against JSON Schemas, with patterns in linear time."""

import json
from typing import Any

import pytest

from minibroker_registry.json_schema import JsonSchema, parse


def _schema(**keywords: Any) -> JsonSchema:
    return parse(json.dumps(keywords), {})


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "é\n", [], {"b": 1, "a": [None]}])
def test_data_comes_back_as_it_was(value: Any) -> None:
    payload = _schema().encode(value)
    assert json.loads(payload) == value
    assert _schema().decode(payload) == value


def test_data_is_utf_8_without_spaces_and_keeps_its_order() -> None:
    assert _schema().encode({"b": "é", "a": [1, 2]}) == '{"b":"é","a":[1,2]}'.encode()


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "object", "properties": {"a": {"minimum": 2}}}, {"a": 1}, r"\$\.a: 1 is less than the minimum of 2"),
        ({"required": ["a"]}, {}, "'a' is a required property"),
        ({"items": {"type": "string"}}, ["x", 1], r"\$\[1\]: 1 is not of type 'string'"),
        ({"pattern": "^a+$"}, "aab", "'aab' does not match"),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"x1": 1}, r"\$\.x1: 1 is not of type 'string'"),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x": 1, "y": 1}, "'y' was unexpected"),
        (
            {"properties": {"x": {"type": "string"}}, "patternProperties": {"^x": {"maxLength": 2}}},
            {"x": "abc"},
            "'abc' is too long",
        ),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, "'b' does not match"),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "non-unique"),
        ({"uniqueItems": True}, [1, 1.0], "non-unique"),
        ({"$ref": "#/definitions/d", "definitions": {"d": {"const": 1.5}}}, 2, "1.5 was expected"),
        (
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "patternProperties": {"^x": {}},
                "unevaluatedProperties": False,
            },
            {"x": 1, "y": 1},
            "Unevaluated properties are not allowed",
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True},
            3,
            "3 is greater than or equal to the maximum of 3",
        ),
    ],
)
def test_what_is_not_valid_is_refused_with_its_place(schema: Any, value: Any, message: str) -> None:
    parsed = _schema(**schema)
    with pytest.raises(ValueError, match=message):
        parsed.encode(value)
    with pytest.raises(ValueError, match=message):
        parsed.decode(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"x1": "a"}),
        (
            {"properties": {"patternProperties": {"type": "object"}, "$schema": {"type": "string"}}},
            {"patternProperties": {}},
        ),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}]),
        ({"const": {"$schema": "x", "patternProperties": 1}}, {"$schema": "x", "patternProperties": 1}),
        ({"pattern": "\\p{L}"}, "1é"),
        ({"multipleOf": 0.01}, 1.13),
        ({"$schema": "http://example.com/unknown", "type": "integer"}, 1),
    ],
)
def test_what_is_valid_is_accepted(schema: Any, value: Any) -> None:
    assert json.loads(_schema(**schema).encode(value)) == value


def test_a_pattern_that_only_java_could_match_is_named_when_data_meets_it() -> None:
    schema = _schema(pattern="^(?!x)")
    assert schema.encode(1) == b"1"
    with pytest.raises(ValueError, match="cannot be matched here"):
        schema.encode("y")


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"NaN", b"1 2", b"[" * 100_000])
def test_a_payload_that_is_no_json_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="The payload is"):
        _schema().decode(payload)


@pytest.mark.parametrize("value", [float("nan"), object(), {1: object()}, b""])
def test_a_value_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="The value is not JSON"):
        _schema().encode(value)


@pytest.mark.parametrize("keywords", [{"not": {"$dynamicRef": "#"}}, {"allOf": [{"$dynamicRef": "#"}]}])
def test_a_schema_that_is_met_again_without_end_is_refused_wherever_the_stack_ends(keywords: Any) -> None:
    schema = _schema(**{"$schema": "https://json-schema.org/draft/2020-12/schema"}, **keywords)

    def encode(frames: int) -> None:
        if frames:
            encode(frames - 1)
        else:
            schema.encode({"a": 1})

    # The stack may end in the library's code in Rust, which panics. On a slow machine the time may end before it.
    for frames in range(40):
        with pytest.raises(ValueError, match=r"nested too deeply|of CPU time"):
            encode(frames)
