"""Sweeps: tests over many rows, of which `make test` takes some and `make torture` takes all."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

few_examples: Final = settings(max_examples=max(2, settings().max_examples // 10))
"""For a property test that is repeated for every version of every message: a tenth of the profile's examples."""


def one_in(count: int, rows: Iterable[Any]) -> list[Any]:
    """Return the rows as parameters; `make test` takes one in `count` of them, beginning with the first."""
    parameters: list[Any] = []
    for number, row in enumerate(rows):
        parameter: Any = row if hasattr(row, "marks") else pytest.param(*(row if type(row) is tuple else (row,)))
        marks = (*parameter.marks, pytest.mark.torture) if number % count else parameter.marks
        parameters.append(parameter._replace(marks=marks))
    return parameters
