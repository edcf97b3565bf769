"""The answers to the lessons in other languages than Python reach their goals, as the pages have them."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.page.lessons.catalogue import LESSONS
from minibroker.page.lessons.lesson import Lesson
from tests.broker.page.lesson_answers import PAGE, SERVER, answer_to, lab_for, reached, server_of
from tests.clients import go_programs, java_programs, node_programs
from tests.patience import PATIENCE_S

BEYOND_KAFKAJS = {"session", "new-protocol"}
"""Goals for which its page sends readers to another client."""

ADDRESSES_IN_GO = """\
package main

import "os"

func addressOf(name string) string { return os.Getenv(name) }
"""


def with_addresses(program: str, server: str, page: str) -> str:
    """The program with expressions for the addresses that it names in its strings."""
    return program.replace(f'"{SERVER}"', server).replace(f'"{PAGE}', f'{page} + "')


def java(lesson: Lesson, folder: Path) -> Sequence[str]:
    sources: list[Path] = []
    for each in LESSONS:
        program = answer_to(each, "java")
        sources.append(folder / f"Lesson{each.number}.java")
        sources[-1].write_text(with_addresses(program, 'System.getenv("SERVER")', 'System.getenv("PAGE")'))
    return java_programs.documented_command(sources, f"Lesson{lesson.number}")


def go(lesson: Lesson, _: Path) -> Sequence[str]:
    programs = {}
    for each in LESSONS:
        program = with_addresses(answer_to(each, "go"), 'addressOf("SERVER")', 'addressOf("PAGE")')
        programs[f"lesson-{each.number}"] = {"main.go": program, "addresses.go": ADDRESSES_IN_GO}
    return go_programs.documented_commands(programs)[f"lesson-{lesson.number}"]


def node(lesson: Lesson, folder: Path) -> Sequence[str]:
    source = folder / "answer.js"
    program = answer_to(lesson, "js").replace(f"`{PAGE}", "`${process.env.PAGE}")
    source.write_text(with_addresses(program, "process.env.SERVER", "process.env.PAGE"))
    interpreter, _ = node_programs.command("member")
    return [interpreter, str(source)]


@pytest.mark.parametrize("lesson", LESSONS, ids=[each.slug for each in LESSONS])
@pytest.mark.parametrize(
    ("command", "beyond"),
    [(java, set()), (go, set()), (node, BEYOND_KAFKAJS)],
    ids=["java", "go", "node"],
)
def test_the_answer_reaches_all_goals(
    tmp_path: Path, command: Callable[[Lesson, Path], Sequence[str]], beyond: set[str], lesson: Lesson
) -> None:
    words = command(lesson, tmp_path)
    with lab_for(lesson) as lab:
        run(words, lab)
        assert set(reached(lesson, lab)) == {goal.name for goal in lesson.goals} - beyond


def run(words: Sequence[str], lab: Broker) -> None:
    addresses = {"SERVER": server_of(lab), "PAGE": lab.page_url}
    environment: Mapping[str, str] = {**os.environ, **node_programs.environment(), **addresses}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
