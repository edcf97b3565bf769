"""The lessons have complete texts, and their goals are reached by the answers for teachers and by nothing else."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_lab.page.lessons.lesson import Lesson
from minibroker_lab.page.lessons.texts import LESSONS
from minibroker_storage.data_directory.names import LESSONS_FILE
from tests.broker.control.http import Control
from tests.broker.page.lesson_answers import (
    PAGE,
    REGISTRY,
    SERVER,
    WITHOUT_CLIENT,
    answer_to,
    client_in,
    clients_in,
    lab_for,
    reached,
    registry_of,
    server_of,
    text_of,
)
from tests.patience import PATIENCE_S
from tests.programs import run_to_success
from tests.sweeps import one_in

_ONCE = {4, 10}
"""Lessons whose answers run once: lesson 4 waits for seconds, and lesson 10 creates its topic."""
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.slug for lesson in LESSONS])


def with_addresses(text: str, broker: Broker) -> str:
    text = text.replace(SERVER, server_of(broker)).replace(PAGE, broker.page_url)
    return text.replace(REGISTRY, registry_of(broker))


def run(program: str, broker: Broker) -> None:
    run_to_success([sys.executable, "-c", with_addresses(program, broker)])


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with lab_for(request.getfixturevalue("lesson")) as broker:
        yield broker


@pytest.mark.parametrize("lesson", one_in(5, LESSONS), ids=[lesson.slug for lesson in LESSONS])
def test_the_answer_reaches_all_goals(lesson: Lesson, lab: Broker) -> None:
    assert reached(lesson, lab) == {}
    run(answer_to(lesson, "python"), lab)
    sentences = reached(lesson, lab)
    assert set(sentences) == {goal.name for goal in lesson.goals} - WITHOUT_CLIENT
    progress = json.loads((Path(lab.data_dir) / LESSONS_FILE).read_text())
    assert progress["reached"] == {f"{lesson.number}/{name}": plain(sentence) for name, sentence in sentences.items()}
    page = Control(lab.page_url)
    page.delete(f"/data/lessons/{lesson.number}/reached")
    assert reached(lesson, lab) == {}, "what came before counts again"
    if lesson.number not in _ONCE:
        run(answer_to(lesson, "python"), lab)
        (row,) = (each for each in page.get("/data/lessons")["lessons"] if each["number"] == lesson.number)
        assert row["reached"] == len(sentences)


def plain(sentence: str) -> str:
    """Return a sentence without the links to requests of this run."""
    return re.sub(r"\[([^]]*)\]\(/requests/\d+\)", r"\1", sentence)


def test_a_lesson_that_has_begun_again_does_so_after_a_restart(tmp_path: Path) -> None:
    lesson = LESSONS[1]
    with Broker(page=True, topics=["orders"], data_dir=tmp_path) as lab:
        run(answer_to(lesson, "python"), lab)
        assert "lingered" in reached(lesson, lab)
        Control(lab.page_url).delete(f"/data/lessons/{lesson.number}/reached")
    with Broker(page=True, topics=["orders"], data_dir=tmp_path) as lab:
        assert reached(lesson, lab) == {}
        run(answer_to(lesson, "python"), lab)
        assert len(reached(lesson, lab)) == len(lesson.goals)


@pytest.mark.parametrize("program", clients_in("python"), ids=["confluent-kafka", "kafka-python"])
def test_the_client_to_begin_with_reads_what_it_has_written(program: str) -> None:
    with Broker(page=True, topics=["orders"]) as broker:
        run(program, broker)
        assert len(broker.records("orders")) == 10


@each_lesson
def test_the_lines_of_curl_are_accepted(lesson: Lesson, request: pytest.FixtureRequest) -> None:
    lines = re.findall(r"^curl .*$", text_of(lesson), re.MULTILINE)
    assert bool(lines) == (lesson.number in {7, 9, 10, 11})
    for line in lines:
        command = [*shlex.split(with_addresses(line, request.getfixturevalue("lab"))), "--fail-with-body"]
        run_to_success(command)


def test_a_topic_that_differs_from_its_option_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for topic in ("orders", "orders", "orders:4:segment.bytes=10000"):
        assert not caplog.messages
        with Broker(topics=[topic], data_dir=tmp_path):
            pass
    (message,) = caplog.messages
    assert message.startswith("topic 'orders' exists already, and stays as it is: it has 1 partition, not 4; ")
    assert message.endswith("segment.bytes is not set, not 10000")


def test_a_lesson_shows_a_client_to_begin_with(page: Control) -> None:
    clients = page.get("/data/lessons/1")["clients"]
    assert list(clients) == ["Python", "Java", "Go", "JavaScript"]
    assert all("orders" in json.dumps(client) for client in clients.values())


@pytest.mark.torture
def test_a_lab_that_was_killed_has_its_records_again_and_cuts_half_a_batch(tmp_path: Path) -> None:
    lesson, orders = LESSONS[9], tmp_path / "orders-0" / "00000000000000000000.log"
    half = re.search(r"^printf '(.*)' >> lesson-10/orders-0/", text_of(lesson), re.MULTILINE)
    assert half is not None
    assert "recovered" not in _lab_killed(tmp_path, client_in("python"))
    whole = orders.read_bytes()
    orders.write_bytes(whole + half[1].encode())
    assert "records up to offset 9 again" in _lab_killed(tmp_path)["recovered"]
    assert orders.read_bytes() == whole


def _lab_killed(directory: Path, program: str = "") -> dict[str, str]:
    """Return the goals of lesson 10 reached by a lab on this directory, and kill the lab."""
    options = ["--data-dir", str(directory), "--no-browser", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]
    command = [sys.executable, "-m", "minibroker", "lab", "--brokers", "3", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        words = dict(word.split("=", 1) for word in lab.stdout.readline().split() if "=" in word)
        try:
            if program:
                program = program.replace(SERVER, words["bootstrap"].split(",")[0])
                subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, check=True)
            sentences: dict[str, str] = Control(words["page"]).get("/data/lessons/10/reached")["reached"]
        finally:
            lab.kill()
    return sentences


def test_an_answer_comes_to_those_alone_who_ask_for_it(page: Control) -> None:
    assert page.get("/data/lessons/1")["answers"] is None
    answers = page.get("/data/lessons/1?answers=true")["answers"]
    assert list(answers) == ["Python", "Java", "Go", "JavaScript"]
    assert all("by-hand" in json.dumps(answer) for answer in answers.values())


@each_lesson
def test_the_links_of_a_lesson_lead_to_views(lesson: Lesson, page: Control) -> None:
    text = text_of(lesson)
    actions = {action["name"] for action in page.get("/data/actions")["actions"]}
    links = re.findall(r"\]\(http://127\.0\.0\.1:8090/([\w/]*)[^)]*\)", text)
    assert links
    for link in links:
        view, _, name = link.partition("/")
        assert view in {"requests", "logs", "state", "do"}
        assert view != "do" or name in {"", *actions}


@each_lesson
def test_a_lesson_has_the_goals_in_its_text(lesson: Lesson) -> None:
    text = text_of(lesson)
    assert text.startswith(f"# {lesson.number}. {lesson.title}\n")
    tasks = "\n".join(f"{number}. {goal.task}" for number, goal in enumerate(lesson.goals, 1))
    assert f"## Goals\n\n{tasks}\n\n" in text  # A link can follow that only the documentation has.
    assert "## Look at it\n" in text
    assert "## Why it is so\n" in text
