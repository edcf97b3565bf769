"""Names with wildcards: * stands for any characters, ? for one. Everything else stands for itself."""

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache


@lru_cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole name matches.

    Clients choose patterns, so a match must not backtrack: `translate` makes an atomic group of each star.
    """
    compiled = re.compile(translate(pattern.replace("[", "[[]")))
    return lambda name: compiled.match(name) is not None


def api_matcher(pattern: str) -> Callable[[str], bool]:
    """The same for names of APIs: Produce, PRODUCE, AddPartitionsToTxn or ADD_PARTITIONS_TO_TXN, *Txn*."""
    matches = matcher(_folded(pattern))
    return lambda name: matches(_folded(name))


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
