"""Words that pages and code avoid, each with what to write instead, and sentences that are too long to read once."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.documented import ROOT

PAGES: Final = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])

AVOIDED: Final = {
    r"anew": "again, or new",
    r"who(m)?ever": "you, or the client",
    r"(is|are|was|were) told": "gets, receives, prints",
    r"what there is|what cannot be": "the thing itself, by its name",
    r"(?<!to )tells?": "prints, returns, says",
    r"dialled": "connected to",
    r"nobody|those who(m)?|anybody|somebody": "no member, unused, unknown",
    r"recogni[s]\w*|initiali[s]\w*|seriali[s]\w*|behaviou\w*|colou\w*|honou\w*": "American spelling",
}

AVOIDED_IN_CODE: Final = re.compile(
    r"\b(anew|who(m)?ever|(?<!\")(?-i:[Nn]obody)|those who(m)?|(some|any|every)body|so manieth"
    r"|(by|for|from|than|to) who"
    r"|(is|are|was|were|be|been|being) told|what (there is|cannot be)|dialled"
    r"|(behavi|col|fav|hon|neighb)our\w*|(recogni|initiali|seriali|normali|organi)s(e|ed|es|ing|ation))\b",
    re.IGNORECASE,
)
"""In docstrings, comments, messages and names: for "is told" write gets, or called with."""
ROOMS: Final = (
    "benchmarks",
    "clients",
    "docker",
    "minibroker",
    "minibroker_tools",
    "pipeline",
    "protocol",
    "storage",
    "tests/torture",
)

LONGEST: Final = 30
"""The words of a sentence; what stands between backquotes is one."""
_BLOCKS: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_PARAGRAPHS: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?)")
_DOCSTRINGS: Final = re.compile(r'^ *"""(.*?)"""', re.DOTALL | re.MULTILINE)
_COLUMNS: Final = re.compile(r"\S {3,}\S|\A {4}")
_SENTENCES: Final = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9\"'(`*])|[:;]\s")


def findings(text: str) -> list[str]:
    """The words of a page that it should not have, each with its line number and what to write instead."""
    return [
        f"line {number}: {match[0]!r}; write {instead}"
        for number, line in enumerate(re.sub(r"`[^`\n]*`", "``", text).splitlines(), 1)
        for pattern, instead in AVOIDED.items()
        for match in re.finditer(rf"\b({pattern})\b", line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_word_that_readers_stumble_over(page: str) -> None:
    assert findings((ROOT / page).read_text()) == []


@pytest.mark.parametrize("room", ROOMS)
def test_code_has_no_word_that_readers_stumble_over(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in {".css", ".go", ".java", ".js", ".py", ".rs", ".ts"}
        and not {"node_modules", "target", "vendor"} & set(path.parts)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in AVOIDED_IN_CODE.finditer(line)
    ]
    assert found == []


def long_sentences(text: str) -> Iterator[str]:
    """The sentences of a page, outside of code and tables, that have too many words."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "``", _BLOCKS.sub("", text)))
    for paragraph in _PARAGRAPHS.split(plain):
        words = " ".join(paragraph.split())
        if not words.startswith(("|", "#")):
            yield from (each for each in _SENTENCES.split(words) if len(each.split()) > LONGEST)


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_of_a_page_can_be_read_once(page: str) -> None:
    assert list(long_sentences((ROOT / page).read_text())) == []


def long_sentences_of_docstrings(source: str) -> Iterator[str]:
    """The same of the docstrings of a module; tables and blocks in them are left out."""
    for match in _DOCSTRINGS.finditer(source):
        paragraphs = inspect.cleandoc(match[1]).split("\n\n")
        yield from long_sentences("\n\n".join(each for each in paragraphs if not _COLUMNS.search(each)))


@pytest.mark.parametrize("room", ROOMS)
def test_a_sentence_of_a_docstring_can_be_read_once(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in sorted((ROOT / room).rglob("*.py"))
        if not {"node_modules", "target", "vendor"} & set(path.parts)
        for sentence in long_sentences_of_docstrings(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_long_sentences_of_docstrings_are_found() -> None:
    long = "word " * LONGEST + "end."
    assert list(long_sentences_of_docstrings(f'"""One.\n\n{long}\n"""')) == [long]
    assert list(long_sentences_of_docstrings(f'    """One.\n\n    - {long}\n    """'))
    assert not list(long_sentences_of_docstrings(f'"""One.\n\n    {long}\n\nname   {long}\n"""'))


def test_long_sentences_are_found() -> None:
    long = "word " * LONGEST + "end."
    assert list(long_sentences(f"# {long}\n\n| {long} |\n\n```\n{long}\n```\n\nShort. {long.title()} Short.")) == [
        long.title()
    ]
    assert not list(long_sentences(f"{'word ' * 20}`{long}`."))


@pytest.mark.parametrize(
    "text",
    [
        "It is made anew.",
        "Whoever asks is served.",
        "It tells the address.",
        "the behaviour",
        "is told so",
        "while nobody looks",
    ],
)
def test_words_to_avoid_are_found(text: str) -> None:
    assert findings(text)


@pytest.mark.parametrize(
    "text",
    [
        "# made anew",
        '"""Tell whoever waits."""',
        "an error for who asks",
        "colour = 1",
        "clients are told so",
        "an id that nobody has",
    ],
)
def test_words_to_avoid_are_found_in_code(text: str) -> None:
    assert AVOIDED_IN_CODE.search(text)


def test_names_in_code_may_have_any_word() -> None:
    assert not findings("`honoured` is a field, and `whoever()` a function.")
