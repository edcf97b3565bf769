"""Large messages are let go some elements at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from minibroker.support.letting_go import let_go, long_lists


class Element:
    """An element of which is known how many there are."""

    alive: ClassVar[int] = 0

    def __init__(self) -> None:
        Element.alive += 1

    def __del__(self) -> None:
        Element.alive -= 1


@dataclass
class Message:
    name: str = "name"
    elements: list[Any] = field(default_factory=list[Any])
    structure: Any = None


def elements(count: int) -> list[Any]:
    return [Element() for _ in range(count)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Message(elements=elements(3500)),
        lambda: Message(elements=[Message(elements=elements(100)) for _ in range(35)]),
        lambda: Message(structure=Message(elements=elements(3500))),
    ],
    ids=["a list", "lists in a list", "a structure"],
)
def test_many_elements_are_freed_in_steps(make: Callable[[], Message]) -> None:
    message = make()
    lists = long_lists(message)
    del message
    alive = [Element.alive, *(Element.alive for _ in let_go(lists))]
    assert (alive[0], alive[-1]) == (3500, 0)
    assert max(before - after for before, after in pairwise(alive)) <= 1000


def test_what_others_hold_stays() -> None:
    message = Message(elements=elements(1500))
    for _ in let_go(long_lists(message)):
        pass
    assert len(message.elements) == Element.alive == 1500


def test_a_small_message_is_freed_at_once() -> None:
    assert long_lists(Message(elements=[Message(elements=elements(100)), None])) == []
    assert long_lists(None) == []
