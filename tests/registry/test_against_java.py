"""The registry reads, prints and compares schemas as the Java libraries do on which other registries stand."""

import functools
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_registry import avro, json_schema
from minibroker_registry.schema import InvalidSchemaError, Parsed
from tests.clients import toolchains
from tests.kafka import jars, jvm
from tests.kafka.fixtures import or_skip
from tests.patience import PATIENCE_S
from tests.registry.test_avro_compatibility import summary

pytestmark = pytest.mark.toolchain

_JAVA: Final = Path(__file__).with_name("java")
_SAMPLES: Final = 400
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMES: Final = ("A", "B", "n.C", "n.D", "m.E", "F")
_PROPERTIES: Final[Sequence[dict[str, Any]]] = (
    {"logicalType": "date"},
    {"logicalType": "decimal", "scale": 1, "precision": 3},
    {"x": 1.5, "a": {"q": 1e30, "b": [True, "é\n"]}},
)
_DEFAULTS: Final[Sequence[Any]] = (None, 1, 1.5, "x", True, [], {}, {"f0": 1}, 2**40, -1e10)


def _answers(lines: Sequence[str]) -> list[str]:
    """Return Java's answer to each line."""
    pom = _JAVA / "pom.xml"
    libs = toolchains.build(
        toolchains.place("registry-oracles", [pom]), lambda made: or_skip(functools.partial(jars.from_maven, pom, made))
    )
    command = or_skip(lambda: jvm.oracle_command(_JAVA / "Schemas.java", libs, heap="256m"))
    done = subprocess.run(
        command,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(lines)
    return answers


class _AvroTypes:
    """Draws types, of which some are not valid."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._known: set[str] = set()

    def type(self, depth: int = 4) -> Any:
        draw = self._random
        kind = draw.choices(["primitive", "name", "array", "map", "union", "named"], [4, 1, 1, 1, 2, 3])[0]
        if kind == "name" and self._known:
            return draw.choice(sorted(self._known))
        if not depth or kind in {"primitive", "name"}:
            primitive = draw.choice(_PRIMITIVES)
            return {"type": primitive, **draw.choice(_PROPERTIES)} if draw.random() < 0.2 else primitive
        if kind in {"array", "map"}:
            return {"type": kind, "items" if kind == "array" else "values": self.type(depth - 1)}
        if kind == "union":
            return [self.type(depth - 1) for _ in range(draw.randint(1, 3))]
        return self._named(depth)

    def _named(self, depth: int) -> dict[str, Any]:
        draw = self._random
        named: dict[str, Any] = {"name": draw.choice(_NAMES)}
        namespace = draw.choice([None, None, "n", "m", ""])
        optional = {"namespace": namespace, "doc": "d\né", "aliases": draw.sample(_NAMES, 2), "zz": 1}
        named |= {key: value for key, value in optional.items() if value is not None and draw.random() < 0.4}
        named["type"] = draw.choice(["record", "record", "enum", "fixed"])
        if named["type"] == "enum":
            named["symbols"] = draw.sample("WXYZ", draw.randint(1, 4))
            named |= {"default": named["symbols"][0]} if draw.random() < 0.4 else {}
        elif named["type"] == "fixed":
            named["size"] = draw.randint(1, 3)
        else:
            self._known.add(named["name"])
            named["fields"] = [self._field(f"f{number}", depth) for number in draw.sample(range(4), draw.randint(0, 3))]
        self._known.add(named["name"])
        items = list(named.items())
        draw.shuffle(items)
        return dict(items)

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        draw = self._random
        optional = {"default": draw.choice(_DEFAULTS), "aliases": [f"f{draw.randint(0, 4)}"], "order": "ignore", "p": 1}
        chosen = {key: value for key, value in optional.items() if draw.random() < 0.2}
        return {"name": name, "type": self.type(depth - 1), **chosen}


def _parse(text: str) -> Parsed | None:
    try:
        return avro.parse(text, {})
    except InvalidSchemaError:
        return None


def test_avro_schemas_are_read_and_printed_alike() -> None:
    texts = [json.dumps(_AvroTypes(seed).type()) for seed in range(_SAMPLES)]
    read = 0
    for text, answer in zip(texts, _answers([f"print\t{text}" for text in texts]), strict=True):
        schema = _parse(text)
        if schema is None:
            assert answer.startswith("refused"), (text, answer)
        # Java cannot check a default of a type that is not complete yet, nor say that well.
        elif answer != "refused: AvroRuntimeException":
            assert schema.canonical == answer
            read += 1
    assert read > _SAMPLES // 2


def test_avro_schemas_are_compared_alike() -> None:
    pairs: list[tuple[str, str]] = []
    replacements = [('"int"', '"long"'), ('"string"', '"bytes"'), ('"f1"', '"f2"'), ('"X"', '"W"'), ('"A"', '"B"')]
    for seed in range(_SAMPLES):
        text = json.dumps(_AvroTypes(seed).type())
        old, new = random.Random(seed).choice(replacements)
        pairs.append((text, text.replace(old, new)))
    parsed = [(_parse(old), _parse(new)) for old, new in pairs]
    known = [(pair, schemas) for pair, schemas in zip(pairs, parsed, strict=True) if None not in schemas]
    answers = _answers([f"compare\t{new}\t{old}" for (old, new), _ in known])
    for ((old, new), (old_schema, new_schema)), answer in zip(known, answers, strict=True):
        assert old_schema is not None
        assert new_schema is not None
        messages = new_schema.incompatibilities(old_schema)
        if answer.startswith("refused"):
            assert "AvroRuntimeException" in answer
            assert old == new or messages
        else:
            assert summary(messages) == (answer or "ok")


class _JsonSchemas:
    """Draws schemas, of which some are not valid, and values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self, depth: int = 3) -> Any:
        draw = self._random
        if not depth:
            return draw.choice([True, False, {}, {"type": draw.choice(["string", "integer", "null", "text"])}])
        keywords: dict[str, Any] = {
            "type": draw.choice(["object", "array", "string", "number", ["string", "null"]]),
            "enum": draw.choice([[1, "a"], [None], 1]),
            "maxLength": draw.choice([0, 1, 2.5]),
            "minimum": draw.choice([0, 1.5, "1"]),
            "pattern": draw.choice(["^a", "b+$", "("]),
            "required": draw.choice([["a"], ["b", 1]]),
            "maxItems": draw.choice([0, 1]),
            "uniqueItems": draw.choice([True, 1]),
        }
        chosen = {key: value for key, value in keywords.items() if draw.random() < 0.15}
        for word in ("properties", "patternProperties", "dependencies"):
            if draw.random() < 0.25:
                chosen[word] = {name: self.schema(depth - 1) for name in draw.sample("ab", draw.randint(0, 2))}
        for word in ("items", "additionalProperties", "not", "contains", "propertyNames"):
            if draw.random() < 0.1:
                chosen[word] = self.schema(depth - 1)
        for word in ("allOf", "anyOf", "oneOf"):
            if draw.random() < 0.1:
                chosen[word] = [self.schema(depth - 1) for _ in range(draw.randint(1, 2))]
        return chosen

    def value(self, depth: int = 2) -> Any:
        draw = self._random
        if not depth or draw.random() < 0.3:
            return draw.choice([None, True, 0, 1, 1.5, "", "a", "ab"])
        if draw.random() < 0.4:
            return [self.value(depth - 1) for _ in range(draw.randint(0, 3))]
        return {name: self.value(depth - 1) for name in draw.sample("abc", draw.randint(0, 3))}


def _check(schema: str, value: Any) -> str:
    try:
        parsed = json_schema.parse(schema, {})
    except InvalidSchemaError:
        return "refused"
    try:
        parsed.encode(value)
    except ValueError:
        return "invalid"
    return "valid"


def test_json_schemas_and_data_are_judged_alike() -> None:
    drawn = [(draw.schema(), draw.value(), draw.value()) for draw in map(_JsonSchemas, range(_SAMPLES))]
    cases = [(json.dumps(schema), value) for schema, *values in drawn if isinstance(schema, dict) for value in values]
    answers = _answers([f"check\t{schema}\t{json.dumps(value)}" for schema, value in cases])
    for (schema, value), answer in zip(cases, answers, strict=True):
        assert _check(schema, value) == answer.partition(":")[0], (schema, value, answer)
    assert {"valid", "invalid"} < {answer.partition(":")[0] for answer in answers}
