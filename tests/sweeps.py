"""Sweeps are tests over many rows. `make test` runs some of the rows, and `make torture` runs all."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

few_examples: Final = settings(max_examples=max(2, settings().max_examples // 10))
"""Settings for a property test repeated for every version of every message: a tenth of the profile's examples."""


def one_in(count: int, rows: Iterable[Any]) -> list[Any]:
    """Return the rows as parameters, of which `make test` runs one in `count`, starting with the first."""
    parameters: list[Any] = []
    for number, row in enumerate(rows):
        parameter: Any = row if hasattr(row, "marks") else pytest.param(*(row if type(row) is tuple else (row,)))
        marks = (*parameter.marks, pytest.mark.torture) if number % count else parameter.marks
        parameters.append(parameter._replace(marks=marks))
    return parameters
