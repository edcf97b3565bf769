"""The types of lessons and goals, and the learner's progress."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_lab.page.lessons.evidence import Activity, ActivityMark, Evidence, Facts, LogMark
from minibroker_storage.data_directory.names import LESSONS_FILE
from minibroker_storage.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


_logger: Final = logging.getLogger(__name__)
_REQUEST_LINK: Final = re.compile(r"\[([^]]*)\]\(/requests/\d+\)")
"""A link to a request. Links are removed before saving, because the next run reuses request numbers."""


class Progress:
    """The goals reached so far. They survive a reset, and a restart on the same data directory.

    After a lesson is restarted, only later requests and records count. Within the same run, requests are compared by
    number. Records are compared with the log end offsets at the lesson's restart, which are saved in the file.
    """

    def __init__(self, data_dir: str) -> None:
        self._path = Path(data_dir) / LESSONS_FILE
        self._reached: dict[str, str] = {}
        self._so_far: dict[str, str] = {}
        self._log_marks: dict[int, dict[str, LogMark]] = {}
        self._activity_marks: dict[int, ActivityMark] = {}
        self._load()

    def _load(self) -> None:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            reached = {str(goal): str(sentence) for goal, sentence in content["reached"].items()}
            self._log_marks = {
                int(number): {key: LogMark(*map(int, mark)) for key, mark in marks.items()}
                for number, marks in content.get("begun_again", {}).items()
            }
            self._reached = reached
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _logger.warning("%s cannot be read (%s): the lessons begin again", self._path, error)

    def of(self, lesson: Lesson) -> dict[str, str]:
        """Return the sentences of the reached goals of a lesson, by goal name."""
        return _of(lesson, self._reached)

    def so_far(self, lesson: Lesson) -> dict[str, str]:
        """Return the sentences of the open goals of a lesson from the last check, by goal name."""
        return _of(lesson, self._so_far)

    def is_complete(self, lesson: Lesson) -> bool:
        """Return whether all goals of a lesson are reached."""
        return len(self.of(lesson)) == len(lesson.goals)

    def marks_of(self, lesson: Lesson) -> Mapping[str, LogMark]:
        """Return the marks of the logs at the lesson's restart, or an empty mapping if it was not restarted."""
        return self._log_marks.get(lesson.number, {})

    def update(self, lesson: Lesson, activity: Activity, facts: Facts) -> None:
        """Check the open goals of a lesson against requests and against `facts` collected after the lesson's marks."""
        mark = self._activity_marks.get(lesson.number)
        if mark is not None:
            facts = facts._replace(was_killed=False)
        evidence = Evidence(activity, facts, mark or ActivityMark())
        count = len(self._reached)
        for goal in lesson.goals:
            key = f"{lesson.number}/{goal.name}"
            if key not in self._reached:
                finding = goal.check(evidence)
                self._so_far.pop(key, None)
                (self._reached if finding.is_reached else self._so_far)[key] = finding.sentence
        if len(self._reached) > count:
            self._save()

    def begin_again(self, lesson: Lesson, mark: ActivityMark, facts: Facts) -> None:
        """Reset the goals of a lesson.

        From now on, only requests, events and records after `mark` and `facts` count.
        """
        for goal in lesson.goals:
            self._reached.pop(f"{lesson.number}/{goal.name}", None)
        self._activity_marks[lesson.number] = mark
        self._log_marks[lesson.number] = {
            log.key: LogMark(log.log.log_end_offset, log.leader_epoch) for log in facts.logs
        }
        self._save()

    def _save(self) -> None:
        try:
            reached = {goal: _REQUEST_LINK.sub(r"\1", sentence) for goal, sentence in self._reached.items()}
            content = {"version": 1, "reached": reached, "begun_again": self._log_marks}
            write_atomically(str(self._path), json.dumps(content, indent=1).encode())
        except OSError as error:  # The lesson continues without the file.
            _logger.warning("%s cannot be written: %s", self._path, error)


def _of(lesson: Lesson, sentences: Mapping[str, str]) -> dict[str, str]:
    """Return the sentences of a lesson by goal name."""
    keys = {goal.name: f"{lesson.number}/{goal.name}" for goal in lesson.goals}
    return {name: sentences[key] for name, key in keys.items() if key in sentences}
