"""Names with wildcards: * stands for any characters, ? for one. Everything else stands for itself."""

import re
from collections.abc import Callable
from functools import cache


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that returns whether a whole name matches."""
    parts = (".*" if each == "*" else "." if each == "?" else re.escape(each) for each in pattern)
    compiled = re.compile("".join(parts), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def api_matcher(pattern: str) -> Callable[[str], bool]:
    """The same for names of APIs: Produce, PRODUCE, AddPartitionsToTxn or ADD_PARTITIONS_TO_TXN, *Txn*."""
    matches = matcher(_folded(pattern))
    return lambda name: matches(_folded(name))


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
