"""The types of lessons and goals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker_lab.page.lessons.evidence import Evidence


class Finding(NamedTuple):
    """The result of checking a goal.

    Attributes:
        is_reached: Whether the goal is reached.
        sentence: A sentence with the evidence that the goal is reached, or with the state so far.
    """

    is_reached: bool
    sentence: str


def reached(sentence: str) -> Finding:
    """Return the finding for a reached goal. `sentence` states the evidence."""
    return Finding(is_reached=True, sentence=sentence)


def report_open(sentence: str) -> Finding:
    """Return the finding for an open goal. `sentence` describes the state so far."""
    return Finding(is_reached=False, sentence=sentence)


class Goal(NamedTuple):
    """A goal for the learner to reach.

    Attributes:
        name: The name of the goal within its lesson, as saved in the progress file.
        task: The sentence that tells the learner what to do.
        hint: Help for a learner who is stuck.
        check: Checks whether the goal is reached.
    """

    name: str
    task: str
    hint: str
    check: Callable[[Evidence], Finding]


class Lesson(NamedTuple):
    """One lesson.

    Attributes:
        number: The number of the lesson, from 1 to 11.
        slug: The file name of its page without the extension.
        title: The title of its page.
        goals: The goals in the order in which learners reach them.
    """

    number: int
    slug: str
    title: str
    goals: tuple[Goal, ...]
