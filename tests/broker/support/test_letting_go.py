"""Long lists are let go some elements at a time."""

from itertools import pairwise
from typing import Any, ClassVar

from minibroker.support.letting_go import let_go


class Element:
    """An element of which is known how many there are."""

    alive: ClassVar[int] = 0

    def __init__(self) -> None:
        Element.alive += 1

    def __del__(self) -> None:
        Element.alive -= 1


def elements(count: int) -> list[Any]:
    return [Element() for _ in range(count)]


def test_many_elements_are_freed_in_steps() -> None:
    made = elements(3500)
    alive = [Element.alive, *(Element.alive for _ in let_go(made))]
    assert (alive[0], alive[-1]) == (3500, 0)
    assert max(before - after for before, after in pairwise(alive)) <= 1000


def test_what_others_hold_stays() -> None:
    held = elements(1500)
    for _ in let_go(held.copy()):
        pass
    assert len(held) == Element.alive == 1500
