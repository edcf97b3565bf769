"""Text as Java trims, compares, orders and parses it, where Python does otherwise."""

import re
from collections.abc import Mapping
from typing import Final, TypeVar

T = TypeVar("T")

BITS_OF_INT: Final = 31
BITS_OF_LONG: Final = 63
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
"""Java's FloatingPointLiteral with a sign (`Double.valueOf`)."""


def trim(text: str) -> str:
    """Remove all characters up to the blank from both ends (`String.trim`)."""
    return text.strip(_TRIMMED)


def is_true(text: str) -> bool:
    """Return whether a text is "true" in upper or lower case (`Boolean.parseBoolean`)."""
    return fold(text) == "true"


def fold(text: str) -> str:
    """Make equal what `String.equalsIgnoreCase` takes for equal, unit by unit."""
    upper = (letter.upper() if len(letter.upper()) == 1 else letter for letter in text)
    return "".join(letter.lower()[0] for letter in upper)


def utf16_order(text: str) -> bytes:
    """Return the key by which strings sort as in Java, by the units of UTF-16 (`String.compareTo`)."""
    return text.encode("utf-16-be", "surrogatepass")


def parse_integer(text: str, bits: int = BITS_OF_LONG) -> int | None:
    """Read a number of so many bits and a sign (`Integer.parseInt`, `Long.parseLong`); None for what is none.

    Java takes the digits of all scripts, if they are single units of UTF-16, but no blanks and underscores.
    """
    digits = text[1:] if text.startswith(("-", "+")) else text
    if not digits.isdecimal() or max(digits) > "\uffff":
        return None
    digits = digits.lstrip("0")
    if len(digits) > bits:  # int() raises an error of its own for thousands of digits.
        return None
    number = int(digits or "0") * (-1 if text.startswith("-") else 1)
    return number if -1 << bits <= number < 1 << bits else None


def long_of(text: str) -> int:
    """Read a long. ValueError."""
    number = parse_integer(text)
    if number is None:
        raise ValueError(f'For input string: "{text}"')
    return number


def parse_double(text: str) -> float | None:
    """Read a double (`Double.parseDouble`); None for what is none."""
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


def double_of(text: str) -> float:
    """Read a double. ValueError."""
    number = parse_double(text)
    if number is None:
        raise ValueError(f'For input string: "{text}"')
    return number


def in_java_order(named: Mapping[str, T]) -> list[tuple[str, T]]:
    """List the entries of a map as a `TreeMap` of strings does."""
    return sorted(named.items(), key=lambda entry: utf16_order(entry[0]))
