"""The answers to the lessons in other languages than Python reach their goals, as the pages have them."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_lab.page.lessons.lesson import Lesson
from minibroker_lab.page.lessons.texts import LESSONS
from tests.broker.page.lesson_answers import (
    PAGE,
    REGISTRY,
    SERVER,
    WITHOUT_CLIENT,
    answer_to,
    client_in,
    lab_for,
    reached,
    registry_of,
    server_of,
)
from tests.clients import go_programs, java_programs, node_programs
from tests.programs import run_to_success

EMPTY: frozenset[str] = frozenset()
BEYOND_KAFKAJS = frozenset({"session", "new-protocol"})
"""Goals for which its page sends readers to another client."""

ADDRESSES_IN_GO = """\
package main

import "os"

func addressOf(name string) string { return os.Getenv(name) }
"""


def with_addresses(program: str, server: str, page: str, registry: str) -> str:
    """The program with expressions for the addresses that it names in its strings."""
    program = program.replace(f'"{SERVER}"', server).replace(f'"{PAGE}', f'{page} + "')
    return program.replace(f'"{REGISTRY}', f'{registry} + "')


def java(lesson: Lesson | None, folder: Path) -> Sequence[str]:
    """The command for the answer to a lesson, or for the client to begin with; so are the next ones."""
    programs = {f"Lesson{each.number}": answer_to(each, "java") for each in LESSONS}
    programs["First"] = client_in("java")
    sources = [folder / f"{name}.java" for name in programs]
    for source, program in zip(sources, programs.values(), strict=True):
        names = ("SERVER", "PAGE", "REGISTRY")
        source.write_text(with_addresses(program, *(f'System.getenv("{name}")' for name in names)))
    return java_programs.documented_command(sources, f"Lesson{lesson.number}" if lesson else "First")


def go(lesson: Lesson | None, _: Path) -> Sequence[str]:
    programs = {f"lesson-{each.number}": answer_to(each, "go") for each in LESSONS}
    programs["first"] = client_in("go")
    files = {
        name: {
            "main.go": with_addresses(program, *(f'addressOf("{name}")' for name in ("SERVER", "PAGE", "REGISTRY"))),
            "addresses.go": ADDRESSES_IN_GO,
        }
        for name, program in programs.items()
    }
    return go_programs.documented_commands(files)[f"lesson-{lesson.number}" if lesson else "first"]


def node(lesson: Lesson | None, folder: Path) -> Sequence[str]:
    source = folder / "program.js"
    program = (answer_to(lesson, "js") if lesson else client_in("js")).replace(f"`{PAGE}", "`${process.env.PAGE}")
    program = program.replace(f"`{REGISTRY}", "`${process.env.REGISTRY}")
    source.write_text(with_addresses(program, *(f"process.env.{name}" for name in ("SERVER", "PAGE", "REGISTRY"))))
    return node_programs.command(source)


@pytest.mark.parametrize("lesson", LESSONS, ids=[each.slug for each in LESSONS])
@pytest.mark.parametrize(
    ("command", "beyond"),
    [
        pytest.param(java, EMPTY, id="java", marks=pytest.mark.torture),
        pytest.param(go, EMPTY, id="go"),
        pytest.param(node, BEYOND_KAFKAJS, id="node", marks=pytest.mark.torture),
    ],
)
def test_the_answer_reaches_all_goals(
    tmp_path: Path, command: Callable[[Lesson, Path], Sequence[str]], beyond: frozenset[str], lesson: Lesson
) -> None:
    words = command(lesson, tmp_path)
    with lab_for(lesson) as lab:
        run(words, lab)
        assert set(reached(lesson, lab)) == {goal.name for goal in lesson.goals} - WITHOUT_CLIENT - beyond


@pytest.mark.parametrize("command", [go, node, pytest.param(java, marks=pytest.mark.torture)])
def test_the_client_to_begin_with_reads_what_it_has_written(
    tmp_path: Path, command: Callable[[Lesson | None, Path], Sequence[str]]
) -> None:
    words = command(None, tmp_path)
    with Broker(page=True, topics=["orders"]) as lab:
        run(words, lab)
        assert len(lab.records("orders")) == 10


def run(words: Sequence[str], lab: Broker) -> None:
    addresses = {"SERVER": server_of(lab), "PAGE": lab.page_url, "REGISTRY": registry_of(lab)}
    environment: Mapping[str, str] = {**os.environ, **addresses}
    run_to_success(words, env=environment)
