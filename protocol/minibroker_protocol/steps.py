"""Work that can be done in steps, so that a caller may do something else in between."""

from collections.abc import Generator, Iterable
from itertools import islice
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


def collect(items: Iterable[T], per_step: int = 1) -> Steps[list[T]]:
    """Return all items as a list, `per_step` of them taken in each step."""
    collected: list[T] = []
    iterator = iter(items)
    while some := list(islice(iterator, per_step)):
        collected += some
        yield
    return collected
