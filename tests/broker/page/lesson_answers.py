"""The answers to the lessons: their programs, and labs that look which goals they have reached."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from minibroker import Broker
from minibroker.page.lessons.catalogue import LESSONS
from minibroker.page.lessons.lesson import Lesson
from minibroker.page.lessons.texts import ANSWERS
from tests.broker.control.http import Control
from tests.documented import ROOT

FOLDER = ROOT / "docs" / "lessons"
LANGUAGES = {"python": "Python", "java": "Java", "go": "Go", "js": "JavaScript"}
"""As the lab names them, by their fences."""
SERVER = "127.0.0.1:9092"
PAGE = "http://127.0.0.1:8090"
"""The addresses that the programs name."""

_TOPICS = {
    3: ["orders:1:segment.bytes=10000,index.interval.bytes=2000"],
    5: ["orders:4"],
    9: ["orders:1:retention.ms=60000", "prices:1:cleanup.policy=compact,min.cleanable.dirty.ratio=0"],
    10: [],
}
"""The topics of a lab that is started as a lesson says; the others have one."""


def answer_to(lesson: Lesson, language: str) -> str:
    (program,) = re.findall(
        rf"^## {lesson.number}\. {lesson.title}\n\n(?:[^#]+?\n\n)?```{language}\n(.*?)^```",
        (FOLDER / ANSWERS[LANGUAGES[language]]).read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return str(program)


@contextmanager
def lab_for(lesson: Lesson) -> Iterator[Broker]:
    brokers = 3 if lesson.number == LESSONS[-1].number else 1
    with Broker(page=True, topics=_TOPICS.get(lesson.number, ["orders"]), brokers=brokers) as broker:
        yield broker


def server_of(broker: Broker) -> str:
    return broker.bootstrap_servers.split(",")[0]


def reached(lesson: Lesson, broker: Broker) -> dict[str, str]:
    """The goals that are reached, each with the sentence that says what shows it."""
    found: dict[str, str] = Control(broker.page_url).get(f"/data/lessons/{lesson.number}/reached")["reached"]
    return found
