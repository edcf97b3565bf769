"""Wake-ups of delayed fetches by appends: a few look again at once, the others in the next turn.

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
    """Delayed fetches that are due to look again. `call_soon` is the event loop's.

    Attributes:
        due: their looks.
        are_awaited: `call_few` is about to be called, so that the event loop needs no turn for what is added.
    """

    __slots__ = ("_call_soon", "are_awaited", "due")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self.due: deque[Callable[[], None]] = deque()
        self.are_awaited = False

    def add(self, look: Callable[[], None]) -> None:
        """Have `look` called in the event loop's next turn, or by `call_few` before."""
        if not self.due and not self.are_awaited:
            self._call_soon(self._call_all)
        self.due.append(look)

    def call_few(self) -> None:
        """Call the first few that are due; the others have the event loop's next turn."""
        due = self.due
        for _ in range(min(len(due), _FEW)):
            self._call(due.popleft())
        if due:
            self._call_soon(self._call_all)

    def _call_all(self) -> None:
        """Call all that are left; looks that are added meanwhile have their turn after this one."""
        due, self.due = self.due, deque()
        for look in due:
            self._call(look)

    def _call(self, look: Callable[[], None]) -> None:
        """Let a fetch look. An error of its is the event loop's to log, not the caller's."""
        try:
            look()
        except Exception as error:  # noqa: BLE001 - it is raised where it belongs
            self._call_soon(partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error
