"""Work in slices: a generator that yields wherever other work may come in between, and returns its result at the end.

A slice leaves everything in a state that other requests may see. Whoever drives such a generator runs it to its end, or
closes it, and then it takes back what it has done.
"""

from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")

Slices = Generator[None, None, _T]
"""Yields nothing, takes nothing, returns a `_T`."""


def finish(slices: Slices[_T]) -> _T:
    """Run all slices at once; returns the result. Raises what they raise."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: _T = end.value
            return result
