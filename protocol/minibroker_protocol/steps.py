"""Work that can be done in steps, so that a caller may do something else in between."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that yields now and then, and returns its result."""


def drain(steps: Steps[T]) -> T:
    """Take all steps at once, where no other client is to be served."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
