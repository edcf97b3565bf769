"""Options of Spark queries over `format("minibroker")`: names and values, checked alike for source and sink."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class OptionError(ValueError):
    """An option that is unknown, or has a value that it cannot have. Names it and says what it can be."""


def check_names(given: Iterable[str], known: Mapping[str, str]) -> None:
    """`OptionError` for a name that is not one of `known`, in small letters both, which says how that is written."""
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f"; is {known[close[0]]} meant?" if close else f" (known: {', '.join(sorted(known.values()))})"
            raise OptionError(f"there is no option {name!r}{meant}")


def read_simple(given: Mapping[str, str], simple: Mapping[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """Values by attribute: what each option of `simple` is read to, where it is given. `OptionError`."""
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
    """True or false, in any case. `ValueError`."""
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def positive(text: str) -> int:
    """A number above 0. `ValueError`."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("expected a number above 0")
    return int(text)


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of these words, in any case. `ValueError`."""

    def choose(text: str) -> str:
        for choice in choices:
            if text.strip().lower() == choice.lower():
                return choice
        raise ValueError(f"expected one of {', '.join(choices)}")

    return choose
