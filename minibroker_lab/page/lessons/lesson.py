"""A lesson and its goals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker_lab.page.lessons.look import Look


class Finding(NamedTuple):
    """The result of one look for a goal.

    Attributes:
        sentence: what shows that the goal is reached, or else what is there so far.
    """

    is_reached: bool
    sentence: str


def reached(sentence: str) -> Finding:
    """The goal is reached, as the sentence shows."""
    return Finding(is_reached=True, sentence=sentence)


def not_yet(sentence: str) -> Finding:
    """The goal is open. The sentence says what is there so far."""
    return Finding(is_reached=False, sentence=sentence)


class Goal(NamedTuple):
    """One thing that the learner brings about.

    Attributes:
        name: of the goal within its lesson, as the progress file has it.
        task: the sentence that asks for it.
        hint: help for a learner who is stuck.
        look_for: decides whether it is reached.
    """

    name: str
    task: str
    hint: str
    look_for: Callable[[Look], Finding]


class Lesson(NamedTuple):
    """One lesson.

    Attributes:
        number: 1 to 10.
        slug: the name of its page, without the ending.
        title: of the page.
        goals: in the order in which learners reach them.
    """

    number: int
    slug: str
    title: str
    goals: tuple[Goal, ...]
