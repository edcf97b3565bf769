"""Protobuf schemas are compared as Confluent's registry compares them."""

import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_registry.protobuf import ProtobufSchema, parse

_ROWS: Final = [
    line.split("\t")
    for line in Path(__file__).with_name("protobuf_verdicts.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith(("#", "old\t"))
]
_REFERENCES: Final = {
    "a.proto": 'syntax = "proto3"; package a; message A { int32 x = 1; A next = 2; message I { } }',
    "b.proto": 'syntax = "proto3"; package b; message A { int64 x = 1; A next = 2; message I { } }',
    "c.proto": 'syntax = "proto3"; package c; message A { string x = 1; A next = 2; message I { } }',
}
_SCALARS: Final = ("int32", "uint64", "sint32", "sint64", "bool", "fixed32", "sfixed64", "float", "double", "string")


def _parse(text: str) -> ProtobufSchema:
    is_proto2 = text.startswith("2:")
    return parse(f'syntax = "proto{2 if is_proto2 else 3}"; {text.removeprefix("2:")}', _REFERENCES)


def _kinds(differences: list[str]) -> str:
    kinds = {match[1] for difference in differences if (match := re.match(r'\{errorType:"(\w+)", ', difference))}
    assert len(kinds) <= len(differences)
    return " ".join(sorted(kinds)) or "ok"


@pytest.mark.parametrize(("old", "new", "backward", "forward"), _ROWS)
def test_differences_are_those_of_confluents_registry(old: str, new: str, backward: str, forward: str) -> None:
    old_schema, new_schema = _parse(old), _parse(new)
    assert _kinds(new_schema.incompatibilities(old_schema)) == backward
    assert _kinds(old_schema.incompatibilities(new_schema)) == forward
    assert new_schema.incompatibilities(new_schema) == []


def test_a_difference_names_its_place_and_leaves_room_for_both_roles() -> None:
    old = _parse("package p; message M { message N { int32 a = 7; } }")
    new = _parse("package p; message M { message N { oneof o { string a = 7; } } }")
    (difference,) = new.incompatibilities(old)
    assert "'#/M/N/o/7'" in difference
    assert difference.count("%s") == 2


def test_a_chain_of_imported_messages_is_followed_without_recursion() -> None:
    chain = "".join(f"message A{number} {{ A{number + 1} next = 1; }} " for number in range(3000))
    texts = {
        kind: f'syntax = "proto3"; package {kind}; {chain} message A3000 {{ {kind} x = 1; }}'
        for kind in ("int32", "string")
    }
    schemas = [
        parse(f'syntax = "proto3"; import "x"; message M {{ {kind}.A0 a = 1; }}', {"x": texts[kind]}) for kind in texts
    ]
    assert _kinds(schemas[0].incompatibilities(schemas[1])) == "FIELD_SCALAR_KIND_CHANGED"


def test_a_map_entry_that_contains_itself_is_compared() -> None:
    schema = _parse(
        "message M { repeated E e = 1; message E { option map_entry = true; string key = 1; E value = 2; } }"
    )
    assert schema.incompatibilities(schema) == []


_fields = st.dictionaries(
    st.integers(1, 4), st.tuples(st.sampled_from(("", "optional ", "repeated ")), st.sampled_from(_SCALARS)), max_size=4
)


@given(_fields, _fields)
def test_data_of_a_compatible_schema_can_be_read(
    old: dict[int, tuple[str, str]], new: dict[int, tuple[str, str]]
) -> None:
    """No field of a compatible writer is lost to its reader, or read as something else."""
    writer, reader = (
        _parse("message M {" + "".join(f"{label}{kind} f{tag} = {tag};" for tag, (label, kind) in fields.items()) + "}")
        for fields in (old, new)
    )
    values: dict[str, object] = {}
    for tag, (label, kind) in old.items():
        value = "text" if kind == "string" else True if kind == "bool" else 1
        values[f"f{tag}"] = [value, value] if label == "repeated " else value
    if not reader.incompatibilities(writer):
        read = reader.decode(writer.encode(values))
        assert isinstance(read, dict)
        for tag in old.keys() & new.keys():
            field = read[f"f{tag}"]
            assert (field[-1] if isinstance(field, list) else field) in ("text", "1", 1, True)
