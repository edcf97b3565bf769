"""A registry with many schemas."""

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

import pytest

from minibroker_registry import records
from minibroker_registry.formats import Formats
from minibroker_registry.records import Content, Record, Version
from minibroker_registry.registry import NewSchema, Registry
from minibroker_registry.schema import Parsed

_COUNT: Final = 10_000


class Topic:
    """A schema topic in memory."""

    cluster_id = "cluster"

    def __init__(self) -> None:
        self.new: list[Record] = []

    def read(self) -> tuple[bool, Sequence[Record]]:
        new, self.new = self.new, []
        return False, new

    def append(self, new: Sequence[Record]) -> None:
        self.new += new


def avro(number: int) -> str:
    fields = [{"name": f"f{index}", "type": ["null", "string"], "default": None} for index in range(20)]
    return json.dumps({"type": "record", "name": f"Order{number}", "fields": fields}, separators=(",", ":"))


def json_schema(number: int) -> str:
    properties = {f"f{index}": {"type": "string", "maxLength": index + 1} for index in range(20)}
    return json.dumps({"title": f"Order{number}", "type": "object", "properties": properties})


def protobuf(number: int) -> str:
    fields = "".join(f"  string f{index} = {index + 1};\n" for index in range(20))
    return f'syntax = "proto3";\npackage shop;\n\nmessage Order{number} {{\n{fields}}}\n'


@pytest.mark.torture
def test_ten_thousand_schemas_are_loaded_and_found() -> None:
    topic = Topic()
    for number in range(_COUNT):
        content = Content("AVRO", avro(number))
        topic.new.append(records.schema_record(Version(f"s{number % 2_000}", number // 2_000 + 1, number + 1, content)))
    registry = Registry(topic)
    registry.sync()
    for number in range(_COUNT):
        assert registry.state.versions_of_id(".", number + 1)[0].content.kind == "AVRO"


@pytest.mark.parametrize(("kind", "text"), [("AVRO", avro), ("JSON", json_schema), ("PROTOBUF", protobuf)])
def test_a_garbage_collection_refuses_no_small_schema(
    monkeypatch: pytest.MonkeyPatch, kind: str, text: Callable[[int], str]
) -> None:
    """In a large process a collection takes longer than the limit. The thread that is parsing may have to do it."""
    passed = count(step=10.0)
    monkeypatch.setattr("minibroker_registry.schema.time.thread_time", lambda: next(passed))
    registry = Registry(Topic())
    for number in range(3):
        registry.sync()
        new = NewSchema(Content(kind, text(number)))
        assert registry.register(f"s{number}", new, normalize=False).id == number + 1


def _parse(formats: Formats, text: str, *, is_new: bool = False) -> Parsed:
    return formats.parse(Content("AVRO", text), "s", lambda _, __: None, is_new=is_new)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_large_schema_is_parsed_once_beside_a_small_one(separators: tuple[str, str]) -> None:
    formats, large = Formats(), json.dumps({"type": "int", "large": "x" * 600_000}, separators=separators)
    texts = (avro(0), large)
    parsed = [_parse(formats, text) for text in texts]
    assert all(_parse(formats, text) is parsed[at] for at, text in enumerate(texts))
    for number in range(8):
        _parse(formats, avro(number + 1))
    assert _parse(formats, large) is not parsed[1]


def test_a_large_schema_is_not_parsed_again_from_the_topic() -> None:
    formats, text = Formats(), json.dumps({"type": "int", "large": "x" * 600_000}, separators=(",", ":"))
    parsed = _parse(formats, text, is_new=True)
    assert _parse(formats, text) is parsed
