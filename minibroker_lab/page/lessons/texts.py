"""The eleven lessons and their pages. The pages are written in Markdown and are also part of the documentation.

The page's security policy requires trusted types, so the page cannot accept HTML. Instead, it gets a tree and creates
the elements itself.

In a checkout the lesson pages are in docs/lessons. In a wheel they are next to this module.
"""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, NamedTuple

from markdown_it import MarkdownIt

from minibroker_lab.page.lessons import clients, records, requests, schemas
from minibroker_lab.page.lessons.lesson import Lesson

LESSONS: Final = (
    Lesson(1, "1-requests", "A request is bytes", requests.A_REQUEST_IS_BYTES),
    Lesson(2, "2-producing", "Producing", requests.PRODUCING),
    Lesson(3, "3-finding", "Finding an offset", records.FINDING),
    Lesson(4, "4-fetching", "Fetching", requests.FETCHING),
    Lesson(5, "5-groups", "Groups", clients.GROUPS),
    Lesson(6, "6-offsets", "Offsets", clients.OFFSETS),
    Lesson(7, "7-idempotence", "Idempotence", records.IDEMPOTENCE),
    Lesson(8, "8-transactions", "Transactions", records.TRANSACTIONS),
    Lesson(9, "9-retention", "Retention and compaction", records.RETENTION),
    Lesson(10, "10-failure", "Failure", clients.FAILURE),
    Lesson(11, "11-schemas", "Schemas", schemas.SCHEMAS),
)


_BESIDE: Final = Path(__file__).with_name("texts")
_CHECKOUT: Final = Path(__file__).parents[3] / "docs" / "lessons"
ANSWERS: Final = {
    "Python": "answers.md",
    "Java": "answers-java.md",
    "Go": "answers-go.md",
    "JavaScript": "answers-node.md",
}
"""The answer pages for teachers, by language."""
_CLIENTS: Final = "clients.md"
"""The page with a first client for each of these languages. Its headings are the languages."""
_GOALS: Final = re.compile(r"^## Goals\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
_LINK: Final = "](http://127.0.0.1:8090"
"""The start of links in the documentation to a lab at its default address. The page makes them relative."""


Element = str | list[Any]
"""A text, or [tag, attributes, child, ...]."""


class Text(NamedTuple):
    """The text of a lesson: the parts before and after its goals, and the clients and answers by language."""

    before: list[Element]
    behind: list[Element]
    clients: dict[str, list[Element]]
    answers: dict[str, list[Element]]


@cache
def text_of(lesson: Lesson) -> Text:
    """Return the text of a lesson.

    Raises:
        OSError: A page of the lesson does not exist.
    """
    source = _read(f"{lesson.slug}.md").partition("\n")[2]  # The view shows the title separately.
    before, after = _GOALS.split(source, maxsplit=1)
    clients = {language: _parse_elements(_find_section(language, _CLIENTS)) for language in ANSWERS}
    title = f"{lesson.number}. {lesson.title}"
    answers = {language: _parse_elements(_find_section(title, page)) for language, page in ANSWERS.items()}
    return Text(_parse_elements(before), _parse_elements(after), clients, answers)


def _find_section(title: str, page: str) -> str:
    for section in re.split(r"^## ", _read(page), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if heading == title:
            return body
    raise LookupError(f"{page} has no section {title!r}")


def _read(name: str) -> str:
    folder = _BESIDE if _BESIDE.is_dir() else _CHECKOUT
    return (folder / name).read_text(encoding="utf-8")


def _parse_elements(source: str) -> list[Element]:
    """Return a Markdown text as elements."""
    tree = _Tree()
    tree.feed(str(MarkdownIt("commonmark", {"html": False}).enable("table").render(source.replace(_LINK, "]("))))
    tree.close()
    return tree.elements


class _Tree(HTMLParser):
    """An HTML parser that builds elements from the output of the Markdown renderer."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open = [self.elements]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element: list[Any] = [tag, dict(attrs)]
        self._open[-1].append(element)
        self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()[0]

    def handle_data(self, data: str) -> None:
        self._open[-1].append(data)
