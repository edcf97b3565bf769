import json
from itertools import pairwise
from typing import Any

import pytest

from minibroker.cluster.section_text import SectionText
from minibroker.support.slices import drain

MANY = 2500


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        3,
        {"epoch": 1, "levels": {"metadata.version": 20}},
        {"brokers": {"": {"log.retention.ms": "60000"}, "1": {}}, "groups": {}},
        {"SCRAM-SHA-256": {f"us\u00e9r{number}": {"salt": "x", "iterations": 4096} for number in range(MANY)}},
        [{"id": str(number), "entity": {"user": None}} for number in range(MANY)],
        [{"id": "t", "renewers": tuple(("User", str(number)) for number in range(MANY))}],
        {"brokers": {"": {f"key{number}": "v" for number in range(MANY)}}},
    ],
)
def test_the_text_says_what_the_value_is(value: Any) -> None:
    text = SectionText()
    drain(text.encode(value))
    assert json.loads(text.text) == json.loads(json.dumps(value))


def test_a_large_value_takes_many_steps_also_where_it_is_a_single_entry() -> None:
    for value in ([{"id": number} for number in range(MANY)], [{"names": [str(number) for number in range(MANY)]}]):
        assert sum(1 for _ in SectionText().encode(value)) > 20


def test_an_entry_is_encoded_once() -> None:
    entries: list[Any] = [{"id": number} for number in range(MANY)]
    text = SectionText()
    drain(text.encode(entries))
    entries[0]["id"] = -1  # would be seen if it were encoded again
    drain(text.encode([*entries[:2], {"id": "new"}]))
    assert json.loads(text.text) == [{"id": 0}, {"id": 1}, {"id": "new"}]


def test_steps_that_do_not_end_change_nothing() -> None:
    text = SectionText()
    first = [{"id": 1}]
    drain(text.encode(first))
    steps = text.encode([{"id": number} for number in range(MANY)])
    next(steps)
    steps.close()
    assert (text.value, text.text) == (first, '[{"id": 1}]')


def test_two_values_that_are_encoded_at_a_time_do_not_mix() -> None:
    text = SectionText()
    values = [[{"id": number + base} for number in range(MANY)] for base in (0, MANY)]
    steps = [text.encode(value) for value in values]
    for one, other in pairwise((*steps, steps[0])):
        next(one)
        next(other)
    drain(steps[0])
    drain(steps[1])
    assert text.value is values[1]
    assert json.loads(text.text) == values[1]
