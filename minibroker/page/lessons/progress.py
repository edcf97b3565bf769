"""The goals that learners have reached, in a file of the data directory."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from minibroker_storage.checkpoints import write_atomically
from minibroker_storage.data_directory.names import LESSONS_FILE

if TYPE_CHECKING:
    from minibroker.page.lessons.lesson import Lesson
    from minibroker.page.lessons.look import Look

_logger: Final = logging.getLogger(__name__)


class Progress:
    """Goals that were reached. They stay so, also after a reset and after a restart on the same directory."""

    def __init__(self, data_dir: str) -> None:
        self._path = Path(data_dir) / LESSONS_FILE
        self._reached: dict[str, str] = self._load()

    def _load(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(goal): str(sentence) for goal, sentence in found["reached"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _logger.warning("%s cannot be read (%s): the lessons begin again", self._path, error)
            return {}

    def of(self, lesson: Lesson) -> dict[str, str]:
        """The sentences of the goals of a lesson that are reached, by their names."""
        found = {goal.name: self._reached.get(f"{lesson.number}/{goal.name}") for goal in lesson.goals}
        return {name: sentence for name, sentence in found.items() if sentence is not None}

    def update(self, lesson: Lesson, look: Look) -> None:
        """Look at the goals of a lesson that are not reached yet."""
        before = len(self._reached)
        for goal in lesson.goals:
            key = f"{lesson.number}/{goal.name}"
            if key not in self._reached and (sentence := goal.reached(look)) is not None:
                self._reached[key] = sentence
        if len(self._reached) > before:
            self._save()

    def forget(self, lesson: Lesson) -> None:
        """Begin a lesson again."""
        for goal in lesson.goals:
            self._reached.pop(f"{lesson.number}/{goal.name}", None)
        self._save()

    def _save(self) -> None:
        try:
            write_atomically(str(self._path), json.dumps({"version": 1, "reached": self._reached}, indent=1).encode())
        except OSError as error:  # the lesson goes on without it
            _logger.warning("%s cannot be written: %s", self._path, error)
