"""Regular expressions beside RE2/J, which Kafka 4 asks: what is none, and what matches."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from minibroker.config.names.regular_expressions import RegularExpression, RegularExpressionError
from tests.broker.names.regular_expressions.test_expression import (
    NO_CLASS,
    NO_ESCAPE,
    NO_GROUP,
    NOTHING_TO_REPEAT,
    PATTERNS,
)
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("ExpressionOracle.java")
_PIECES: Final = [
    *["a", "b", "K", "1", "-", "_", " ", "é", "ß", "Σ", "\U0001f600", ".", "^", "$", "|", "(", ")", "[", "]", "{", "}"],
    *["*", "+", "?", "{2}", "{1,3}", "{0,}", "{,2}", "*?", "(?:", "(?i)", "(?-i)", "(?s)", "(?m)", "(?i:", "(?P<n>"],
    *["[a-k]", "[^a]", "[^", "[:alpha:]", "[[:^digit:]]", "[[:punct:]-]", "[[:space:]x]", "[[:word:]]"],
    *[r"\d", r"\W", r"\s", r"\b", r"\B", r"\A", r"\z", r"\pL", r"\PN", r"\p{Lu}", r"\p{^Lu}", r"\p{Any}", r"\Q", r"\E"],
    *[r"\x41", r"\x{e9}", r"\101", r"\t", r"\n", r"\.", r"\q", "\\", "\n"],
]
_CHARACTERS: Final = "abkK1-_ éÉßſσςΣ\u212a\U0001f600.()[]{}*\n\tA\\Q"
_LAST: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class ExpressionOracle(LineOracle):
    """See `LineOracle`."""

    def matches(self, pattern: str, *texts: str) -> list[bool] | None:
        """Which texts match as a whole; None where the pattern is no expression."""
        answer = self.ask(*(b64encode(each.encode()).decode() for each in (pattern, *texts)))
        assert answer, self.complaints()
        return None if answer == "!" else [each == "1" for each in answer[1:]]


@pytest.fixture(scope="module")
def re2() -> Iterator[ExpressionOracle]:
    """RE2/J, of the newest Kafka."""
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with or_skip(lambda: ExpressionOracle(_SOURCE, libs, heap="256m")) as running:
        yield running


def _ours(pattern: str, *texts: str) -> list[bool] | None:
    try:
        expression = RegularExpression(pattern)
    except RegularExpressionError:
        return None
    return [expression.matches(each) for each in texts]


@pytest.mark.parametrize("pattern", [*PATTERNS, *NO_CLASS, *NO_ESCAPE, *NO_GROUP, *NOTHING_TO_REPEAT])
def test_expressions_are_ones_for_both_or_for_neither(pattern: str, re2: ExpressionOracle) -> None:
    assert (_ours(pattern) is None) is (re2.matches(pattern) is None)


def test_expressions_of_any_pieces_match_alike(re2: ExpressionOracle) -> None:
    rnd = Random(7)
    known = 0
    for _ in range(5000):
        pattern = "".join(rnd.choice(_PIECES) for _ in range(rnd.randrange(1, 8)))
        texts = ["", *("".join(rnd.choices(_CHARACTERS, k=rnd.randrange(1, 6))) for _ in range(12))]
        theirs = re2.matches(pattern, *texts)
        assert _ours(pattern, *texts) == theirs, (pattern, texts)
        known += theirs is not None
    assert known > 1000


@pytest.mark.parametrize("pattern", [r"\d", r"\s", r"\w", *(f"[[:{each}:]]" for each in ("graph", "print", "cntrl"))])
def test_classes_have_the_same_characters(pattern: str, re2: ExpressionOracle) -> None:
    characters = list(map(chr, range(0x300)))
    assert _ours(pattern, *characters) == re2.matches(pattern, *characters)
