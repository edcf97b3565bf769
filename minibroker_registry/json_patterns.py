"""The regular expressions of JSON Schema, matched in linear time by the broker's matcher.

That knows RE2's syntax. Java's has more: look-around, back-references and possessive or atomic repetition. A schema
may use them, but what they match cannot be told here.
"""

import functools
import re
from typing import Final

from minibroker.config.names.regular_expressions import RegularExpression, RegularExpressionError, parse
from minibroker_registry.schema import InvalidSchemaError

_BEYOND_RE2: Final = re.compile(
    r"\\(?:u[0-9A-Fa-f]{4}|k<[^>]*>|[pP]\{[^}]*\}|c.|.)"  # an escape
    r"|\(\?(?:[=!>]|<[=!])"  # look-around, or an atomic group
    r"|(?P<repeat>[*+?}])\+",  # possessive repetition
    re.DOTALL,
)
_ESCAPES_BEYOND_RE2: Final = frozenset("123456789uckpPGRXZhHvVNe")


class UnsupportedPatternError(ValueError):
    """The error for an expression that only Java's matcher could match."""


def check_pattern(pattern: str, where: str) -> None:
    """Check the syntax of an expression.

    Raises:
        InvalidSchemaError: It is wrong.
    """
    try:
        _check(pattern)
    except RegularExpressionError as error:
        raise InvalidSchemaError(f"{where}: {error}") from None


@functools.lru_cache(1_000)
def _check(pattern: str) -> None:
    try:
        parse(pattern)
    except RegularExpressionError:
        parse(_BEYOND_RE2.sub(_simplify, pattern))


def _simplify(match: re.Match[str]) -> str:
    """Return what takes the place of syntax that RE2 lacks, to check the rest."""
    if match["repeat"]:
        return match["repeat"]
    if match[0].startswith("("):
        return "(?:"
    return "x" if match[0][1] in _ESCAPES_BEYOND_RE2 else match[0]


def is_found(pattern: str, text: str) -> bool:
    """Return whether an expression matches some part of a text.

    Raises:
        UnsupportedPatternError: The expression cannot be matched in linear time, or not within the matcher's limits.
    """
    try:
        return _compile(pattern).matches(text)
    except RegularExpressionError as error:
        raise UnsupportedPatternError(f"The pattern {pattern!r} cannot be matched here: {error.description}") from None


@functools.lru_cache(1_000)
def _compile(pattern: str) -> RegularExpression:
    parse(pattern)  # The parentheses below must not complete it.
    return RegularExpression(f"(?s:.*)(?:{pattern})(?s:.*)")
