"""Untrusted JSON, and the values of `share.auto.offset.reset`."""

import pytest

from minibroker.config.documents import MAX_JSON_DEPTH, parse_json
from minibroker.config.keys import OffsetReset
from minibroker.operations.matching import record
from minibroker.operations.producing import convert_to_json
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
    assert convert_to_json(value, "json") == convert_to_json(value, "text")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", OffsetReset("earliest")),
        ("LATEST", OffsetReset("latest")),
        ("by_duration:PT1H30M", OffsetReset("by_duration", 5_400_000)),
        ("by_duration:P2DT0.25S", OffsetReset("by_duration", 172_800_250)),
        ("by_duration:pt1,5s", OffsetReset("by_duration", 1_500)),
    ],
)
def test_a_strategy_is_a_word_or_a_duration(text: str, expected: OffsetReset) -> None:
    assert OffsetReset.of(text) == expected


@pytest.mark.parametrize("text", ["by", "none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:PT-1S"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        OffsetReset.of(text)
