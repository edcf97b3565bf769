"""Large messages are let go some elements at a time: to free 200,000 of them at once takes 20 ms."""

from collections.abc import Iterator
from typing import Any, Final

from minibroker.support.slices import Steps

_MANY: Final = 1000
"""Elements that are freed in one step, which takes a fraction of a millisecond."""


def long_lists(message: object) -> list[list[Any]]:
    """Copies of the lists in a message, its structures and the elements of its short lists, if they have many elements.

    A copy keeps the elements alive when the message is freed.
    """
    found: list[list[Any]] = []
    for each in _lists_of(message):
        if len(each) > _MANY:
            found.append(each.copy())
        else:
            found += [inner.copy() for element in each for inner in _lists_of(element)]
    return found if sum(map(len, found)) > _MANY else []


def _lists_of(structure: object) -> Iterator[list[Any]]:
    for name in getattr(structure, "__dataclass_fields__", ()):
        value = getattr(structure, name)
        if isinstance(value, list):
            yield value
        elif hasattr(value, "__dataclass_fields__"):
            yield from _lists_of(value)


def let_go(lists: list[list[Any]]) -> Steps[None]:
    """Empty such copies. What nothing else holds is freed."""
    for each in lists:
        while each:
            del each[-_MANY:]
            yield
