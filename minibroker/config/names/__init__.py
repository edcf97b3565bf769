"""Names that users write: matching of wildcards, and suggestions for unknown names."""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Final

_MAX_SUGGESTIONS: Final = 3


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean NAME?" with a known name, or "".

    NAME is the known name most similar to `name`, or the only one that begins with it.
    """
    names = list(known)
    longer = [candidate for candidate in names if name and candidate.startswith(name)]
    same = [candidate for candidate in names if candidate.lower() == name.lower()]
    similar = same or _find_closest(name, names, cutoff=0.75) or (longer if len(longer) == 1 else [])
    return f"; did you mean {similar[0]}?" if similar else ""


def suggestion_by_end(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean NAME or NAME?" with the known names whose last words resemble `name`, or "".

    If more than three names resemble it, none is suggested. Words are separated by `_`: TIMEOUT resembles the end
    of REQUEST_TIMED_OUT.
    """
    ends: dict[str, list[str]] = {}
    for known_name in known:
        words = known_name.split("_")
        for first in range(1, len(words)):
            ends.setdefault("".join(words[first:]), []).append(known_name)
    alike = _find_closest(name.replace("_", ""), ends, cutoff=0.85)
    similar = [known_name for end in alike for known_name in ends[end]]
    return f"; did you mean {' or '.join(similar)}?" if 0 < len(similar) <= _MAX_SUGGESTIONS else ""


def misspelling(name: str, known: Iterable[str]) -> str | None:
    """Return the known name for which `name` is probably a misspelling, or None.

    Names that differ on purpose do not count, such as `orders-1` and `orders-2`, or `orders-retry` and `orders`.
    """
    others = [candidate for candidate in known if candidate != name and not _differ_on_purpose(name, candidate)]
    similar = _find_closest(name, others, cutoff=0.8)
    return similar[0] if similar else None


def _find_closest(name: str, known: Iterable[str], *, cutoff: float) -> list[str]:
    """Return the most similar known names, the best one first."""
    import difflib  # noqa: PLC0415 - needed for wrong names only

    return difflib.get_close_matches(name, list(known), n=_MAX_SUGGESTIONS, cutoff=cutoff)


def _differ_on_purpose(name: str, other: str) -> bool:
    short, long = sorted((name, other), key=len)
    if long.startswith(short) and not long[len(short)].isalpha():
        return True
    letters, others = ("".join(filter(str.isalpha, text)) for text in (name, other))
    return letters == others and any(map(str.isdigit, name + other))


@lru_cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that checks whether a pattern with wildcards matches a whole name.

    Clients choose patterns, so a match must not backtrack. `translate` makes an atomic group of each star.
    """
    compiled = re.compile(translate(pattern.replace("[", "[[]")))
    return lambda name: compiled.match(name) is not None


def api_matcher(pattern: str) -> Callable[[str], bool]:
    """Like matcher(), for names of APIs: Produce, PRODUCE, AddPartitionsToTxn, ADD_PARTITIONS_TO_TXN, *Txn*."""
    matches = matcher(_fold(pattern))
    return lambda name: matches(_fold(name))


def _fold(name: str) -> str:
    return name.replace("_", "").lower()
