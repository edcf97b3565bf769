"""The lessons: their texts are complete, and the answers for teachers reach their goals, which nothing else reaches."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.page.lessons.catalogue import LESSONS
from minibroker.page.lessons.lesson import Lesson
from minibroker_storage.data_directory.names import LESSONS_FILE
from tests.broker.control.http import Control
from tests.documented import ROOT
from tests.patience import PATIENCE_S

FOLDER = ROOT / "docs" / "lessons"
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[each.slug for each in LESSONS])
TOPICS = {
    3: ["orders:1:segment.bytes=10000,index.interval.bytes=2000"],
    5: ["orders:4"],
    9: ["orders:1:retention.ms=60000", "prices:1:cleanup.policy=compact,min.cleanable.dirty.ratio=0"],
    10: [],
}
"""The topics of a lab that is started as a lesson says; the others have one."""


def answer_to(lesson: Lesson) -> str:
    (program,) = re.findall(
        rf"^## {lesson.number}\. {lesson.title}\n\n```python\n(.*?)^```",
        (FOLDER / "answers.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return str(program)


def run(program: str, broker: Broker) -> None:
    for documented, real in (
        ("127.0.0.1:9092", broker.bootstrap_servers.split(",")[0]),
        ("http://127.0.0.1:8090", broker.page_url),
    ):
        program = program.replace(documented, real)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Broker]:
    lesson: Lesson = request.getfixturevalue("lesson")
    with Broker(
        page=True, topics=TOPICS.get(lesson.number, ["orders"]), brokers=3 if lesson.number == LESSONS[-1].number else 1
    ) as broker:
        yield broker


@each_lesson
def test_the_answer_reaches_all_goals(lesson: Lesson, lab: Broker) -> None:
    page = Control(lab.page_url)
    path = f"/data/lessons/{lesson.number}/reached"
    assert page.get(path) == {"reached": {}}
    run(answer_to(lesson), lab)
    reached = page.get(path)["reached"]
    assert set(reached) == {goal.name for goal in lesson.goals}
    kept = json.loads((Path(lab.data_dir) / LESSONS_FILE).read_text())
    assert kept["reached"] == {f"{lesson.number}/{name}": sentence for name, sentence in reached.items()}


def test_an_answer_comes_to_those_alone_who_ask_for_it(page: Control) -> None:
    assert page.get("/data/lessons/1")["answer"] is None
    assert "by-hand" in json.dumps(page.get("/data/lessons/1?answers=true")["answer"])


@each_lesson
def test_the_links_of_a_lesson_lead_to_views(lesson: Lesson, page: Control) -> None:
    text = (FOLDER / f"{lesson.slug}.md").read_text()
    actions = {each["name"] for each in page.get("/data/actions")["actions"]}
    links = re.findall(r"\]\(http://127\.0\.0\.1:8090/([\w/]*)[^)]*\)", text)
    assert links
    for link in links:
        view, _, name = link.partition("/")
        assert view in {"requests", "logs", "state", "do"}
        assert view != "do" or name in {"", *actions}


@each_lesson
def test_a_lesson_has_the_goals_in_its_text(lesson: Lesson) -> None:
    text = (FOLDER / f"{lesson.slug}.md").read_text()
    assert text.startswith(f"# {lesson.number}. {lesson.title}\n")
    tasks = "\n".join(f"{number}. {goal.task}" for number, goal in enumerate(lesson.goals, 1))
    assert f"## Goals\n\n{tasks}\n\n## Look at it\n" in text
    assert "## Why it is so\n" in text
