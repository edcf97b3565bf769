"""JSON that anybody may have written."""

import pytest

from minibroker.config.documents import MAX_JSON_DEPTH, parse_json
from minibroker.operations.matching import record
from minibroker.operations.producing import shown
from minibroker.operations.records import ConsumerRecord


def nested(depth: int) -> bytes:
    return b'{"a":[' * (depth // 2) + b"1" + b"]}" * (depth // 2)


def record_of(value: bytes) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 0, "CreateTime", None, value, (), 2, "none", -1)


def test_json_may_be_nested_so_deeply() -> None:
    assert parse_json(nested(MAX_JSON_DEPTH), "value")
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]", "value")


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 2, 500, 3000, 100_000])
def test_json_that_is_nested_more_deeply_is_not_read(depth: int) -> None:
    with pytest.raises(ValueError, match="value: nested too deeply"):
        parse_json(nested(depth), "value")
    with pytest.raises(ValueError, match="value: nested too deeply"):
        parse_json(nested(depth).decode(), "value")
    with pytest.raises(ValueError, match="value: nested too deeply"):
        record_of(nested(depth)).json()


@pytest.mark.parametrize("value", [nested(300), nested(3000), b"1" * 5000, b"\xff", b'"\\ud800"', b"NaN"])
def test_a_value_that_is_hostile_does_not_match_and_is_shown(value: bytes) -> None:
    assert record({"id": 2}).mismatches(record_of(value))
    assert shown(value, "json") == shown(value, "text")
