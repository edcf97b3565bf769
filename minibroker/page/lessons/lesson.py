"""A lesson and its goals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.page.lessons.look import Look


class Goal(NamedTuple):
    """One thing that the learner brings about.

    Attributes:
        name: of the goal within its lesson, as the progress file has it.
        task: the sentence that asks for it.
        hint: help for a learner who is stuck.
        reached: a sentence on what shows that it is reached; None as long as nothing does.
    """

    name: str
    task: str
    hint: str
    reached: Callable[[Look], str | None]


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
