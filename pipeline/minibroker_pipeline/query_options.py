"""Options of Spark queries with `format("minibroker")`: shared checks of names and values for source and sink."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class OptionError(ValueError):
    """An unknown option or an invalid value. The message names the option and lists the valid choices."""


def check_names(given: Iterable[str], known: Mapping[str, str]) -> None:
    """Check that all options are known.

    Args:
        given: lowercase names of options.
        known: the proper spelling of each option by its lowercase name.

    Raises:
        OptionError: a name is unknown. The message suggests a similar one.
    """
    for name in given:
        if name not in known:
            similar = get_close_matches(name, known, n=1)
            hint = f"; is {known[similar[0]]} meant?" if similar else f" (known: {', '.join(sorted(known.values()))})"
            raise OptionError(f"there is no option {name!r}{hint}")


def read_simple(given: Mapping[str, str], simple: Mapping[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """Parse the given options and return their values by attribute name.

    Args:
        given: texts by lowercase option name.
        simple: the attribute and the parser of each option.

    Raises:
        OptionError: a parser refuses its text.
    """
    values: dict[str, Any] = {}
    for option, (attribute, read) in simple.items():
        text = given.get(option.lower())
        if text is not None:
            try:
                values[attribute] = read(text)
            except ValueError as error:
                raise OptionError(f"{option}: {text!r}: {error}") from None
    return values


def flag(text: str) -> bool:
    """Parse "true" or "false", ignoring case.

    Raises:
        ValueError: the text is neither.
    """
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def positive(text: str) -> int:
    """Parse an integer above 0.

    Raises:
        ValueError: the text is not such a number.
    """
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("expected a number above 0")
    return int(text)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser for one of these words, which ignores case and raises `ValueError` for any other text."""

    def choose(text: str) -> str:
        for choice in choices:
            if text.strip().lower() == choice.lower():
                return choice
        raise ValueError(f"expected one of {', '.join(choices)}")

    return choose
