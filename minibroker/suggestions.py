"""What was probably meant by a name that there is not."""

from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean NAME?` with the known name that is most like it; empty if none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

    found = get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"; did you mean {found[0]}?" if found else ""
