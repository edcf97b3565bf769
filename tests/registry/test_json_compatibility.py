"""JSON Schemas are compared as Confluent's registry compares them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from minibroker_registry.json_schema import JsonSchema, parse

_ROWS: Final = [
    line.split("\t")
    for line in Path(__file__).with_name("json_verdicts.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith(("#", "old\t"))
]
_MESSAGE: Final = re.compile(r'\{errorType:"(\w+)", description:"At path \'(#/[^\']*)\', .*"\}')


def _findings(messages: list[str]) -> set[tuple[str, str]]:
    matches = [_MESSAGE.fullmatch(message) for message in messages]
    assert all(matches)
    return {(match[1], match[2]) for match in matches if match}


def _kinds(messages: list[str]) -> str:
    return " ".join(sorted({kind for kind, _ in _findings(messages)})) or "ok"


def _schema(schema: Any) -> JsonSchema:
    return parse(json.dumps(schema), {})


@pytest.mark.parametrize(("old", "new", "backward", "forward", "lenient"), _ROWS)
def test_differences_are_those_of_confluents_registry(
    old: str, new: str, backward: str, forward: str, lenient: str
) -> None:
    old_schema, new_schema = parse(old, {}), parse(new, {})
    assert _kinds(new_schema.incompatibilities(old_schema)) == backward
    assert _kinds(old_schema.incompatibilities(new_schema)) == forward
    assert _kinds(new_schema.incompatibilities(old_schema, lenient=True)) == lenient
    assert new_schema.incompatibilities(new_schema) == []


def test_differences_have_paths_through_references() -> None:
    texts = [
        {"properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/d"}}}, "definitions": {"d": definition}}
        for definition in ({"type": "string"}, {"type": "string", "maxLength": 3, "pattern": "x"})
    ]
    assert _findings(_schema(texts[1]).incompatibilities(_schema(texts[0]))) == {
        ("MAX_LENGTH_ADDED", "#/properties/a/items/maxLength"),
        ("PATTERN_ADDED", "#/properties/a/items/pattern"),
    }


def test_a_message_has_room_for_the_roles_of_both_schemas() -> None:
    (message,) = _schema({"type": "string", "minLength": 2}).incompatibilities(
        _schema({"type": "string", "minLength": 1})
    )
    assert message % ("new", "old") == (
        '{errorType:"MIN_LENGTH_INCREASED", description:"At path \'#/minLength\','
        ' the bound of the new schema is greater than in the old schema"}'
    )


def test_bounds_that_confluent_compares_with_the_wrong_ones_are_compared() -> None:
    """Confluent compares `exclusiveMaximum` with `maximum`, and fails if there is none."""
    for rest in ({}, {"maximum": 9}):
        old, new = (_schema({"type": "number", "exclusiveMaximum": bound, **rest}) for bound in (5, 4))
        assert _kinds(new.incompatibilities(old)) == "EXCLUSIVE_MAXIMUM_DECREASED"
        assert _kinds(old.incompatibilities(new)) == "ok"


def test_what_is_wrong_deep_in_a_circle_of_references_is_found_by_every_way_there() -> None:
    def circle(end: str) -> JsonSchema:
        pair = {"properties": {"left": {"$ref": "#/definitions/b"}, "right": {"$ref": "#/definitions/c"}}}
        ends = {"b": {"properties": {"back": {"$ref": "#"}}}, "c": {"properties": {"v": {"type": end}}}}
        return _schema({**pair, "definitions": ends})

    assert _findings(circle("integer").incompatibilities(circle("string"))) >= {
        ("TYPE_CHANGED", "#/properties/right/properties/v"),
        ("TYPE_CHANGED", "#/properties/left/properties/back/properties/right/properties/v"),
    }


def test_references_through_other_schemas_are_compared() -> None:
    text = '{"properties": {"a": {"$ref": "other.json#/definitions/x"}}}'
    old, new = (
        parse(text, {"other.json": f'{{"definitions": {{"x": {{"type": "{kind}"}}}}}}'})
        for kind in ("integer", "number")
    )
    assert new.incompatibilities(old) == []
    assert _findings(old.incompatibilities(new)) == {("TYPE_NARROWED", "#/properties/a")}


_SCALARS: Final = (None, True, 0, 2, 4, 1.5, "", "ab", "abcd")
_KEYS: Final = ("a", "b", "xa")

_values = st.recursive(
    st.sampled_from(_SCALARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3),
    max_leaves=5,
)
_leaves = st.sampled_from(
    [
        True,
        False,
        {},
        *({"type": name} for name in ("null", "boolean", "string", "integer", "number")),
        {"type": ["string", "null"]},
        {"type": "string", "maxLength": 3},
        {"type": "string", "minLength": 1},
        {"type": "string", "pattern": "^a"},
        {"type": "number", "minimum": 1},
        {"type": "number", "maximum": 3, "exclusiveMinimum": 0},
        {"type": "integer", "multipleOf": 2},
        {"enum": [0, "ab"]},
        {"enum": [0]},
        {"const": "ab"},
    ]
)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(st.sampled_from(_KEYS), inner, max_size=2))
    others = {
        "additionalProperties": st.booleans() | inner,
        "maxProperties": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "dependencies": st.just({"a": ["b"]}),
    }
    if properties:
        others["required"] = st.lists(st.sampled_from(sorted(properties)), unique=True)
    return {"type": "object", "properties": properties, **draw(st.fixed_dictionaries({}, optional=others))}


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    others = {"minItems": st.integers(0, 2), "maxItems": st.integers(0, 2), "uniqueItems": st.booleans()}
    items = draw(st.fixed_dictionaries({}, optional={"items": inner | st.lists(inner, min_size=1, max_size=2)}))
    if isinstance(items.get("items"), list):
        others["additionalItems"] = st.booleans() | inner
    return {"type": "array", **items, **draw(st.fixed_dictionaries({}, optional=others))}


def _with_parts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(inner, min_size=1, max_size=2)
    sums = st.sampled_from(["anyOf", "allOf"]).flatmap(lambda word: st.fixed_dictionaries({word: parts}))
    return _objects(inner) | _arrays(inner) | sums


_schemas = st.recursive(_leaves, _with_parts, max_leaves=5)


@st.composite
def _changes(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a schema, and one that has some of its parts replaced."""
    old = draw(_schemas)
    return old, draw(_schemas) if draw(st.integers(0, 4)) == 0 else _changed(draw, old)


def _changed(draw: st.DrawFn, schema: Any) -> Any:
    if draw(st.integers(0, 5)) == 0 or not isinstance(schema, dict):
        return draw(_leaves)
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key not in {"type", "enum", "const"} and draw(st.integers(0, 4)) == 0:
            continue
        if key in {"items", "additionalItems", "additionalProperties", "anyOf", "allOf"}:
            changed[key] = (
                [_changed(draw, part) for part in value] if isinstance(value, list) else _changed(draw, value)
            )
        elif key == "properties":
            names = {*value, *draw(st.lists(st.sampled_from(_KEYS), max_size=1))}
            changed[key] = {
                name: _changed(draw, value[name]) if name in value else draw(_leaves) for name in sorted(names)
            }
        elif isinstance(value, int) and not isinstance(value, bool) and key != "const":
            changed[key] = max(value + draw(st.sampled_from([-1, 0, 0, 1])), 0 if key != "multipleOf" else 1)
        else:
            changed[key] = value
    if "required" in changed:
        changed["required"] = [name for name in changed["required"] if name in changed.get("properties", {})]
    if not isinstance(changed.get("items"), list):
        changed.pop("additionalItems", None)
    return changed


@pytest.mark.torture
@settings(max_examples=150)
@given(_changes(), st.lists(_values, min_size=3, max_size=8))
def test_what_was_valid_stays_valid_under_a_compatible_schema(schemas: tuple[Any, Any], values: list[Any]) -> None:
    """The rules of Confluent that break this are left out of the schemas here.

    It compares no `patternProperties`, `propertyNames`, `contains` and conditions, `required` only for properties that
    both schemas describe, and `additionalItems` even where it means nothing. Parts of `oneOf` may begin to overlap.
    """
    old, new = schemas
    is_compatible = not _schema(new).incompatibilities(_schema(old))
    event("compatible" if is_compatible else "incompatible")
    for value in values if is_compatible else []:
        if jsonschema.Draft7Validator(old).is_valid(value):
            assert jsonschema.Draft7Validator(new).is_valid(value), value
