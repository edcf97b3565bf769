"""Work that is split into steps, so that the caller can do something else in between."""

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that yields between its steps and returns its result."""


def drain(steps: Steps[T]) -> T:
    """Run all steps without a pause, for callers that need not serve other clients in between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def collect(items: Iterable[T], per_step: int = 1) -> Steps[list[T]]:
    """Collect all items in a list, reading `per_step` items per step."""
    collected: list[T] = []
    iterator = iter(items)
    while chunk := list(islice(iterator, per_step)):
        collected += chunk
        yield
    return collected
