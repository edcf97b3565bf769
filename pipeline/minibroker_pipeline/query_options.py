"""Parses the options of Spark queries with `format("minibroker")`, for the source and the sink."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

TABLE_HINT: Final = "; for a table of SQL, CREATE TABLE without a list of columns"


class OptionError(ValueError):
    """An unknown option or an invalid value. The message names the option and lists what is allowed."""


def read_options(options: Mapping[str, str], parsers: Mapping[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """Parse the options of a query and return their values by attribute name.

    Args:
        options: texts by option name, in any case.
        parsers: the attribute and the parser of each option. Later options of an attribute override earlier ones.

    Raises:
        OptionError: an option is unknown, or a parser refuses its text. The message suggests a similar name.
    """
    texts = {name.lower(): text for name, text in options.items()}
    names = {name.lower(): name for name in parsers}
    for name in [name for name in texts if name not in names]:
        similar = get_close_matches(name, names, n=1)
        hint = f"; is {names[similar[0]]} meant?" if similar else f" (known: {', '.join(sorted(parsers))})"
        raise OptionError(f"there is no option {name!r}{hint}")
    values: dict[str, Any] = {}
    for option, (attribute, read) in parsers.items():
        if (text := texts.get(option.lower())) is not None:
            try:
                values[attribute] = read(text)
            except ValueError as error:
                raise OptionError(f"{option}: {text!r}: {error}") from None
    return values


def parse_flag(text: str) -> bool:
    """Parse "true" or "false", ignoring case.

    Raises:
        ValueError: the text is neither.
    """
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def parse_positive(text: str) -> int:
    """Parse an integer above 0.

    Raises:
        ValueError: the text is not such a number.
    """
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("expected a number above 0")
    return int(text)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts one of these words in any case, and raises `ValueError` for any other text."""

    def choose(text: str) -> str:
        for choice in choices:
            if text.strip().lower() == choice.lower():
                return choice
        raise ValueError(f"expected one of {', '.join(choices)}")

    return choose
