"""A registry with many schemas."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from minibroker_registry import records
from minibroker_registry.formats import Formats
from minibroker_registry.records import Content, Record, Version
from minibroker_registry.registry import NewSchema, Registry
from minibroker_registry.schema import Parsed

_SLACK: Final = 5
"""How much more CPU time than on a quiet machine a step may take here."""
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
def test_ten_thousand_schemas_are_loaded_and_found_soon() -> None:
    topic = Topic()
    for number in range(_COUNT):
        content = Content("AVRO", avro(number))
        topic.new.append(records.schema_record(Version(f"s{number % 2_000}", number // 2_000 + 1, number + 1, content)))
    registry = Registry(topic)
    begin = time.thread_time()
    registry.sync()
    assert time.thread_time() - begin < 2 * _SLACK
    begin = time.thread_time()
    for number in range(_COUNT):
        assert registry.state.versions_of_id(".", number + 1)[0].content.kind == "AVRO"
    assert time.thread_time() - begin < 0.001 * _COUNT * _SLACK


@pytest.mark.parametrize(("kind", "text"), [("AVRO", avro), ("JSON", json_schema), ("PROTOBUF", protobuf)])
def test_a_schema_is_registered_soon(kind: str, text: Callable[[int], str]) -> None:
    registry = Registry(Topic())
    registry.register("warm-up", NewSchema(Content(kind, text(0))), normalize=False)
    begin = time.thread_time()
    for number in range(100):
        registry.sync()
        new = NewSchema(Content(kind, text(number + 1)))
        assert registry.register(f"s{number}", new, normalize=False).id == number + 2
    assert time.thread_time() - begin < 0.003 * 100 * _SLACK


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
