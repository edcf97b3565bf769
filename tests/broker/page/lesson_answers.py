"""The answers to the lessons: their programs, and labs that check the goals reached."""

import re
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from minibroker import Broker
from minibroker.cli.main import make_parser
from minibroker_lab.page.lessons.lesson import Lesson
from minibroker_lab.page.lessons.texts import ANSWERS
from tests.broker.control.http import Control
from tests.documented import ROOT, code

FOLDER = ROOT / "docs" / "lessons"
LANGUAGES = {"python": "Python", "java": "Java", "go": "Go", "js": "JavaScript"}
"""The lab's names of languages by the names of code fences."""
WITHOUT_CLIENT = {"recovered"}
"""A goal that requires killing the lab."""
SERVER = "127.0.0.1:9092"
PAGE = "http://127.0.0.1:8090"
"""The default address of the page, which the programs use."""
REGISTRY = "http://127.0.0.1:8081"
"""The address of the registry in lesson 11."""


def answer_to(lesson: Lesson, language: str) -> str:
    (program,) = re.findall(
        rf"^## {lesson.number}\. {lesson.title}\n\n(?:[^#]+?\n\n)?```{language}\n(.*?)^```",
        (FOLDER / ANSWERS[LANGUAGES[language]]).read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return str(program)


def client_in(language: str) -> str:
    """Return the first client of a language in the text for beginners."""
    return clients_in(language)[0]


def clients_in(language: str) -> list[str]:
    return code("docs/lessons/clients.md", LANGUAGES[language], language)


@contextmanager
def lab_for(lesson: Lesson) -> Generator[Broker]:
    """Yield a lab started with the command of the lesson."""
    (words,) = re.findall(r"^This lesson needs a lab[^`]* `minibroker (lab .*?)`", text_of(lesson), re.MULTILINE)
    options = make_parser(words.split()).parse_args(words.split())
    assert options.lesson == lesson.number
    registry = options.registry is not None
    with Broker(page=True, topics=options.topic, brokers=options.brokers or 1, registry=registry) as broker:
        yield broker


def text_of(lesson: Lesson) -> str:
    return (FOLDER / f"{lesson.slug}.md").read_text()


def registry_of(broker: Broker) -> str:
    """Return the URL of the registry, or an empty string."""
    with suppress(RuntimeError):
        return broker.registry_url
    return ""


def server_of(broker: Broker) -> str:
    return broker.bootstrap_servers.split(",")[0]


def reached(lesson: Lesson, broker: Broker) -> dict[str, str]:
    """Return the sentences of the reached goals, which give the evidence."""
    return _sentences(lesson, broker)["reached"]


def so_far(lesson: Lesson, broker: Broker) -> dict[str, str]:
    """Return the sentences of the open goals."""
    return _sentences(lesson, broker)["so_far"]


def _sentences(lesson: Lesson, broker: Broker) -> dict[str, dict[str, str]]:
    sentences: dict[str, dict[str, str]] = Control(broker.page_url).get(f"/data/lessons/{lesson.number}/reached")
    assert not sentences["reached"].keys() & sentences["so_far"].keys()
    assert {*sentences["reached"], *sentences["so_far"]} == {goal.name for goal in lesson.goals}
    return sentences


def with_lab(lesson: Lesson) -> pytest.MarkDecorator:
    """Run a test with a `lab` for this lesson."""
    return pytest.mark.parametrize("lab", [lesson], indirect=True, ids=[""])
