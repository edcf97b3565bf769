"""Names with wildcards."""

import pytest

from minibroker.config.names import api_matcher, matcher


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("or*", "orders", True),
        ("*or*s", "orders", True),
        ("o?ders", "orders", True),
        ("*", "", True),
        ("?", "", False),
        ("a[b]*", "a[b]c", True),
        ("a[b]*", "abc", False),
        ("[!a]", "b", False),
        ("a.b", "axb", False),
        ("a*", "a\nb", True),
    ],
)
def test_a_star_and_a_question_mark_are_the_only_wildcards(pattern: str, name: str, *, expected: bool) -> None:
    assert matcher(pattern)(name) is expected


def test_an_api_matches_in_either_spelling() -> None:
    assert api_matcher("ADD_*_TO_TXN")("AddPartitionsToTxn")


@pytest.mark.parametrize("pattern", ["*" * 40 + "!", "*a" * 40 + "!", "*?" * 40 + "!"])
def test_a_pattern_of_many_stars_does_not_backtrack(pattern: str) -> None:
    """With backtracking this would not end."""
    assert not matcher(pattern)("a" * 1000)
