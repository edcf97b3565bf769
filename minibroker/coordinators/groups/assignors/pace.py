"""The pace of an assignor: it yields about every millisecond."""

from typing import Final

_UNITS: Final = 1_000


class Pace:
    """Counts units of work of about a microsecond, and says when to yield: about every millisecond."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _UNITS

    def is_due(self, units: int) -> bool:
        """Count units of work. Returns whether to yield now."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = _UNITS
        return True
