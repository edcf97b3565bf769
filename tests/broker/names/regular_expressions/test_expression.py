"""Clients' regular expressions give the same results as Python's `re`, in bounded time."""

import re
from collections.abc import Collection
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.config.names.regular_expressions import (
    CostError,
    RegularExpression,
    RegularExpressionError,
    ignore_case,
)

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
    r"\Aa",
    "(?i)aB[c-d]",
    ".b",
    r"a\Bb?.*",
    "a*?b",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text("abcdABC-1 \n", max_size=8))
def test_it_matches_what_pythons_matcher_matches(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern, text, re.ASCII) is not None
    if not text.endswith("\n"):  # Python's $ also matches before a final newline.
        assert RegularExpression(pattern).matches(text) == expected


def test_an_expression_that_makes_others_go_back_for_ever_takes_no_time() -> None:
    assert not RegularExpression("(a+)+b").matches("a" * 3000)
    assert RegularExpression("(a|a)*(a|aa)*").matches("a" * 3000)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"\pL+", "aÄж", "a1"),
        (r"\p{Lu}\P{Lu}", "Äa", "aÄ"),
        (r"[^\p{^Nd}x]", "٣", "x"),
        ("(?i)\\p{Lu}", "ä", "1"),
        (r"\Qa.b\E+", "a.bb", "axb"),
        (r"\Qa.b", "a.b", "axb"),
        ("[[:alpha:][:digit:]_]+", "aZ_9", "-"),
        ("[[:^alpha:]]", "9", "a"),
        ("a(?i)b|c", "C", "A"),
        ("(?i:a)b", "Ab", "AB"),
        ("(?i)(?-i:a)b", "aB", "Ab"),
        ("(?i)[k-l]", "\u212a", "m"),
        ("(?i)ж", "Ж", "z"),
        (".", "a", "\n"),
        ("(?s).", "\n", ""),
        ("[^a]", "\n", "a"),
        ("a$.^b", "", "a\nb"),
        ("(?ms)a$.^b", "a\nb", "ab"),
        (r"\Aab\z", "ab", "abc"),
        (r"\x41\x{1F600}\101\0", "A\U0001f600A\0", "A"),
        (r"\t\_\-", "\t_-", "t_-"),
        (r"[\d\-a-]+", "1-a", "b"),
        ("[]a]+", "]a", "b"),
        ("(?P<one>a)(?<two>b)", "ab", "a"),
        ("a{,2}", "a{,2}", "aa"),
        ("a{1,02}", "a{1,02}", "aa"),
        ("a{01}", "a{01}", "a"),
        (r"\s", " ", "\v"),
        ("", "", "a"),
        ("(|a)+", "aa", "b"),
        ("a*?b+?", "aab", "a"),
    ],
)
def test_it_says_what_it_says_to_re2(pattern: str, matching: str, other: str) -> None:
    expression = RegularExpression(pattern)
    assert expression.matches(matching) is (pattern != "a$.^b")
    assert not expression.matches(other)


TOO_MUCH = [
    "(?:.?){1000}" * 9,
    "[" + "a" * 3000 + "]",
    "[a" * 3000,
    r"\Q" + "a" * 3000,
    "(?:)" * 3000,
    "(a{100}){1000}",
    "a" * 30_000,
    "(" * 5000 + ")" * 5000,
    "(((){1000}){1000}){1000}",
    "a{99999999999}",
]
NOTHING_TO_REPEAT = ["*", "a|*", "(?:+)", "{2}", "a**", "a{2}{3}", "a{2}??"]
NO_GROUP = [
    "(",
    ")",
    "(?:a",
    "(?",
    "(?i",
    "(?-)",
    "(?x)a",
    "(?#a)",
    "(?P=a)",
    "(?P<>a)",
    "(?P<a>b)(?P<a>c)",
    "(?<a-b>c)",
]
NO_CLASS = ["[", "[a", "[]", "[^]", "[z-a]", r"[a-\d]", "[[:alpha:]", "[[:other:]]", r"\p", r"\pX", r"\p{Lu", r"\p{Cn}"]
NO_ESCAPE = ["\\", r"\Z", r"\C", r"\8", r"(a)\1", r"\x1", r"\x{}", r"\x{110000}", r"\u0041", r"[\b]"]
LOOKING_AROUND = ["(?=a)", "(?!a)", "(?<!a)b", "(?<=a)b", "(?>a)"]


@pytest.mark.parametrize(
    "pattern", [*TOO_MUCH, *NOTHING_TO_REPEAT, *NO_GROUP, *NO_CLASS, *NO_ESCAPE, *LOOKING_AROUND, "a{1001}", "a{2,1}"]
)
def test_what_is_none_or_needs_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(RegularExpressionError):
        RegularExpression(pattern)


def _slices(expression: RegularExpression, texts: Collection[str]) -> tuple[list[str], int]:
    """Return the texts that match, and how often the search yielded."""
    slices = 0
    steps = expression.matching(texts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, slices
        slices += 1


def test_a_message_shows_the_beginning_of_a_long_expression() -> None:
    with pytest.raises(RegularExpressionError, match="aaa") as caught:
        RegularExpression("a" * 30_000)
    assert len(str(caught.value)) < 400


def test_many_texts_and_large_sets_of_states_are_matched_in_slices() -> None:
    many = [f"{number:040}" for number in range(10_000)]
    found, slices = _slices(RegularExpression(".*7"), many)
    assert len(found) == 1000
    assert slices > 10
    found, slices = _slices(RegularExpression("(?:.?){200}" * 3), ["x" * 60, "x" * 601])
    assert found == ["x" * 60]
    assert slices > 10


def test_an_expression_matches_alike_when_it_has_to_forget_sets_of_states() -> None:
    expression = RegularExpression("[ab]*a[ab]{12}c?")
    texts = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(1 << 14, 1 << 15, 3)]
    expected = [text for text in texts if re.fullmatch("[ab]*a[ab]{12}c?", text)]
    assert _slices(expression, texts)[0] == expected


def test_matching_ends_when_it_takes_too_much_work() -> None:
    expression = RegularExpression(".*a.{900}")
    with pytest.raises(CostError):
        expression.matches("".join(Random(5).choices("ab", k=20_000)))
    assert not expression.matches("b" * 40)


def test_all_characters_with_case_are_known() -> None:
    for character in map(chr, range(0x110000)):
        if len(character.lower()) == len(character.upper()) == 1 and character.lower() != character.upper():
            assert ignore_case(frozenset(character.lower()).__contains__)(character), hex(ord(character))
            assert ignore_case(frozenset(character.upper()).__contains__)(character) or character == "\u0131"
