"""Trimming, comparing, sorting and parsing of text as in Java, for cases where Python behaves differently."""

import re
from collections.abc import Mapping
from typing import Final, TypeVar

T = TypeVar("T")

INT_BITS: Final = 31
LONG_BITS: Final = 63
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
"""Java's FloatingPointLiteral with an optional sign (`Double.valueOf`)."""


def trim(text: str) -> str:
    """Remove the space (U+0020) and all characters below it from both ends, like `String.trim`."""
    return text.strip(_TRIMMED)


def is_true(text: str) -> bool:
    """Return whether a text is "true", ignoring case, like `Boolean.parseBoolean`."""
    return fold_case(text) == "true"


def fold_case(text: str) -> str:
    """Return a comparison key. Two texts have the same key if `String.equalsIgnoreCase` considers them equal.

    Java compares single UTF-16 units.
    """
    upper = (letter.upper() if len(letter.upper()) == 1 else letter for letter in text)
    return "".join(letter.lower()[0] for letter in upper)


def utf16_order(text: str) -> bytes:
    """Return a sort key that orders strings by UTF-16 units, as Java does (`String.compareTo`)."""
    return text.encode("utf-16-be", "surrogatepass")


def parse_integer(text: str, bits: int = LONG_BITS) -> int | None:
    """Parse a signed integer of `bits` bits like `Integer.parseInt` or `Long.parseLong`.

    Return None for invalid text. Java accepts the digits of all scripts if they are single UTF-16 units, but no spaces
    or underscores.
    """
    digits = text[1:] if text.startswith(("-", "+")) else text
    if not digits.isdecimal() or max(digits) > "\uffff":
        return None
    digits = digits.lstrip("0")
    if len(digits) > bits:  # Python's int() would raise an error for thousands of digits.
        return None
    number = int(digits or "0") * (-1 if text.startswith("-") else 1)
    return number if -1 << bits <= number < 1 << bits else None


def to_long(text: str) -> int:
    """Parse a long.

    Raises:
        ValueError: the text is not a long.
    """
    number = parse_integer(text)
    if number is None:
        raise ValueError(f'For input string: "{text}"')
    return number


def parse_double(text: str) -> float | None:
    """Parse a double like `Double.parseDouble`, or return None for invalid text."""
    trimmed = trim(text)
    match = _DOUBLE.fullmatch(trimmed)
    if match is None:
        return None
    if match["hex"] is None:
        return float(trimmed if match["decimal"] is None else trimmed.rstrip("fFdD"))
    sign = "-" if trimmed.startswith("-") else ""
    try:
        return float.fromhex(sign + match["hex"])
    except OverflowError:
        return float(f"{sign}inf")


def to_double(text: str) -> float:
    """Parse a double.

    Raises:
        ValueError: the text is not a double.
    """
    number = parse_double(text)
    if number is None:
        raise ValueError(f'For input string: "{text}"')
    return number


def sort_in_java_order(mapping: Mapping[str, T]) -> list[tuple[str, T]]:
    """Return the entries of a mapping in the order of a Java `TreeMap` of strings."""
    return sorted(mapping.items(), key=lambda entry: utf16_order(entry[0]))
