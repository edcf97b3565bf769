"""Wake-ups of delayed fetches: a few look again at once when appends are written, the others in the next turn.

A producer's answer and the answers to fetches that wait for its records are due at the same moment. The fetches go
first: their clients have waited longer, and the way to a consumer is what people measure. Only a few go first, so that
a producer does not wait for a crowd of consumers.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

_FEW: Final = 4
"""The number of fetches that look before the producer has its answer: each takes some 50 us."""


class Wakeups:
    """Delayed fetches that are due to look again. `call_soon` is the event loop's."""

    __slots__ = ("_call_soon", "_due")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._due: deque[Callable[[], None]] = deque()

    def add(self, look: Callable[[], None]) -> None:
        """Have `look` called in the event loop's next turn, or by `call_few` before."""
        if not self._due:
            self._call_soon(self._call_all)
        self._due.append(look)

    def call_few(self) -> None:
        """Call the first few that are due. An error of theirs is the event loop's to log, not the caller's."""
        due = self._due
        if not due:
            return
        for _ in range(min(len(due), _FEW)):
            look = due.popleft()
            try:
                look()
            except Exception as error:  # noqa: BLE001 - it is raised where it belongs
                self._call_soon(partial(_raise, error))

    def _call_all(self) -> None:
        """Call all that are left; looks that are added meanwhile have their turn after this one."""
        due, self._due = self._due, deque()
        for look in due:
            try:
                look()
            except Exception as error:  # noqa: BLE001 - as above
                self._call_soon(partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error
