"""Plain values as JSON."""

from dataclasses import dataclass

import pytest

from minibroker_protocol.json_values import dataclass_json, number_json


@dataclass(frozen=True)
class Inner:
    first_offset: int
    key: bytes | None = None


@dataclass(frozen=True)
class Outer:
    last_five: tuple[Inner, ...]
    numbers: dict[str, int]
    is_open: bool = True
    ratio: float = 0.5


def test_names_are_in_camel_case_and_values_are_plain() -> None:
    value = Outer((Inner(2**60, b"k"), Inner(-1, b"\xff")), {"log_start_offset": 3})
    assert dataclass_json(value) == {
        "lastFive": [{"firstOffset": str(2**60), "key": "k"}, {"firstOffset": -1, "key": {"base64": "/w=="}}],
        "numbers": {"logStartOffset": 3},
        "isOpen": True,
        "ratio": 0.5,
    }


@pytest.mark.parametrize(
    ("number", "shown"), [(2**53, 2**53), (2**53 + 1, "9007199254740993"), (-(2**63), str(-(2**63)))]
)
def test_numbers_that_javascript_lacks_are_texts(number: int, shown: object) -> None:
    assert number_json(number) == shown
