"""Sets of characters as in RE2/J: Perl, POSIX and Unicode classes, ranges, and case folding."""

import functools
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

Accepts = Callable[[str], bool]
"""A function that returns whether a character is in the set."""

_DIGITS: Final = "0123456789"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()
_ALPHANUMERIC: Final = _DIGITS + _LOWER + _UPPER
_ASCII: Final = "".join(map(chr, range(128)))
_GRAPH: Final = "".join(map(chr, range(0x21, 0x7F)))
_PERL: Final = {"d": _DIGITS, "s": "\t\n\f\r ", "w": _ALPHANUMERIC + "_"}
_POSIX: Final = {
    "alnum": _ALPHANUMERIC,
    "alpha": _LOWER + _UPPER,
    "ascii": _ASCII,
    "blank": "\t ",
    "cntrl": "".join(map(chr, [*range(0x20), 0x7F])),
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH + " ",
    "punct": "".join(each for each in _GRAPH if each not in _ALPHANUMERIC),
    "space": "\t\n\v\f\r ",
    "upper": _UPPER,
    "word": _ALPHANUMERIC + "_",
    "xdigit": _DIGITS + "abcdefABCDEF",
}
_CATEGORIES: Final = frozenset(
    {"C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No"}
    | {"P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"}
)
"""Unicode's general categories that RE2/J supports. "C" contains no unassigned code points."""
_UNASSIGNED: Final = "Cn"
# fmt: off
_CASED_RANGES: Final = (
    (0x41, 0x7A), (0xB5, 0x29E), (0x345, 0x345), (0x370, 0x586), (0x10A0, 0x10FF), (0x13A0, 0x13FD), (0x1C80, 0x1CBF),
    (0x1D79, 0x1D8E), (0x1E00, 0x1FFC), (0x2126, 0x2184), (0x24B6, 0x24E9), (0x2C00, 0x2D2D), (0xA640, 0xA69B),
    (0xA722, 0xA7F6), (0xAB53, 0xABBF), (0xFF21, 0xFF5A), (0x10400, 0x1044F), (0x104B0, 0x104FB), (0x10570, 0x105BC),
    (0x10C80, 0x10CF2), (0x10D50, 0x10D85), (0x118A0, 0x118DF), (0x16E40, 0x16E7F), (0x16EA0, 0x16ED3),
    (0x1E900, 0x1E943),
)
# fmt: on
"""Ranges of code points with all cased characters of Unicode 17. Searching all of Unicode would take 40 ms."""
_DOTLESS_I: Final = "\u0131"


def perl(letter: str) -> Accepts:
    r"""Return the class for `\d`, `\s` or `\w`. It contains only ASCII characters."""
    return frozenset(_PERL[letter]).__contains__


def posix(name: str) -> Accepts | None:
    """Return the class for `[:name:]`, or None if no class has this name."""
    members = _POSIX.get(name)
    return None if members is None else frozenset(members).__contains__


def unicode(name: str) -> Accepts | None:
    r"""Return the class for `\p{name}`, or None if `name` is not a general category."""
    if name == "Any":
        return ANY
    if name not in _CATEGORIES:
        return None

    def holds(character: str) -> bool:
        category = unicodedata.category(character)
        return category.startswith(name) and category != _UNASSIGNED

    return holds


def between(first: int, last: int) -> Accepts:
    """Return the set of characters from one code point to another, inclusive."""
    return lambda character: first <= ord(character) <= last


def negated(accepts: Accepts) -> Accepts:
    """Return the complement of a set."""
    return lambda character: not accepts(character)


def union(sets: Iterable[Accepts]) -> Accepts:
    """Return the union of sets."""
    members = tuple(sets)
    if len(members) == 1:
        return members[0]
    return lambda character: any(accepts(character) for accepts in members)


def ignore_case(accepts: Accepts) -> Accepts:
    """Return the set extended by every character that differs only in case from one of the set's members."""
    return lambda character: accepts(character) or any(map(accepts, _orbits().get(character, "")))


def _fold(character: str) -> str:
    """Return the character that represents all characters differing only in case (Unicode's simple case folding)."""
    upper = character.upper()
    if character == _DOTLESS_I or len(upper) > 1:
        upper = character
    lower = upper.lower()
    return lower if len(lower) == 1 else character


@functools.cache
def _orbits() -> dict[str, str]:
    """Map each cased character to itself and the characters that differ from it only in case."""
    orbits: dict[str, list[str]] = {}
    for character in (chr(code) for first, last in _CASED_RANGES for code in range(first, last + 1)):
        plain = _fold(character)
        if plain != character:
            orbits.setdefault(plain, [plain]).append(character)
    return {character: "".join(orbit) for orbit in orbits.values() for character in orbit}


ANY: Final = between(0, 0x10FFFF)
NO_NEWLINE: Final = negated(between(10, 10))
