"""Text of clients made fit for a log: one line, and not without an end."""

from typing import Final

_MOST: Final = 300


def one_line(text: str) -> str:
    """The text, cut to 300 characters; where it is not all printable, escaped as in a literal."""
    shown = text[:_MOST]
    return shown if shown.isprintable() else repr(shown)[1:-1]
