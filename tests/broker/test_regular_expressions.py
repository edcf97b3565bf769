"""Regular expressions of clients: what Python's own matcher says, without its patience."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.regular_expressions import RegularExpression, RegularExpressionError

PATTERNS = [
    "",
    "a",
    "orders-.*",
    "(foo|bar)+",
    "a?b*c+",
    "[a-c]{2,3}",
    "[^ab]*",
    r"\d+-\w\b.*",
    "^ab$",
    "(a|ab)(c|bcd)?",
    "(?:ab){2}",
    "a{0,2}b",
    "((a*)*)*b",
    r"\Aa\Z",
    "(?i)aB[c-d]",
    ".b",
    r"a\Bb?.*",
    "a*?b",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text("abcdABC-1 \n", max_size=8))
def test_it_matches_what_pythons_matcher_matches(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern, text, re.ASCII) is not None
    if not text.endswith("\n"):  # before which Python's $ holds, too
        assert RegularExpression(pattern).matches(text) == expected


def test_an_expression_that_makes_others_go_back_for_ever_takes_no_time() -> None:
    assert not RegularExpression("(a+)+b").matches("a" * 3000)
    assert RegularExpression("(a|a)*(a|aa)*").matches("a" * 3000)


TOO_MUCH = ["a{2000}{2000}", "a" * 30_000, "(" * 5000 + ")" * 5000]


@pytest.mark.parametrize("pattern", ["(", "[", "*", r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", *TOO_MUCH])
def test_what_is_none_or_needs_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(RegularExpressionError):
        RegularExpression(pattern)
