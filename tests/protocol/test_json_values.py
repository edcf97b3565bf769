"""Plain values as JSON."""

import pytest

from minibroker_protocol.json_values import number_json


@pytest.mark.parametrize(
    ("number", "shown"), [(2**53, 2**53), (2**53 + 1, "9007199254740993"), (-(2**63), str(-(2**63)))]
)
def test_numbers_that_javascript_lacks_are_texts(number: int, shown: object) -> None:
    assert number_json(number) == shown
