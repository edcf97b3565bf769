"""Words that several messages share."""

from collections.abc import Iterable
from datetime import timedelta

from minibroker.config.names import suggestion

_SHOWN = 10
_LONGEST_SPAN = timedelta.max.days * 86_400


def counted(number: int, noun: str, nouns: str = "") -> str:
    """`1 record`, `2 records`; `nouns` is a plural with another ending."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def span(seconds: float) -> str:
    """`8:20:00`, `83 days, 8:00:00`."""
    return str(timedelta(seconds=round(min(seconds, _LONGEST_SPAN), 3)))


def missing(kind: str, name: str, known: Iterable[str]) -> str:
    """`there is no topic 'ordres'; topics: orders; did you mean orders?`."""
    names = sorted(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = ", ".join(names[:_SHOWN]) or "none"
    return f"there is no {kind} {name!r}; {kind}s: {there}{more}{suggestion(name, names)}"
