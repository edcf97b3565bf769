"""Deadlines that are postponed again and again, such as the end of a member's session.

A deadline is a number that each heartbeat moves; its timer stays where it is and looks again when it fires too early.
So a heartbeat costs an assignment, whatever the number of members. Time is the clock's monotonic one: setting the wall
clock must not end sessions.
"""

from collections.abc import Callable
from typing import Final

from minibroker.clock import Clock, Timer

_TOLERANCE_MS: Final = 1
"""Timers may fire this much early; a deadline so near has come."""


class Deadline:
    """A call that happens once its moment has come, unless it is put off or cancelled before."""

    __slots__ = ("_callback", "_clock", "_due_ms", "_timer", "_timer_ms")

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._due_ms: float | None = None
        self._timer: Timer | None = None
        self._timer_ms = 0.0

    @property
    def is_set(self) -> bool:
        """Will the call happen?"""
        return self._due_ms is not None

    def restart(self, delay_ms: float) -> None:
        """Have the call happen `delay_ms` from now, whenever it should have happened before."""
        due_ms = self._due_ms = self._clock.monotonic_ms() + delay_ms
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._arm(delay_ms)

    def cancel(self) -> None:
        """The call will not happen."""
        self._due_ms = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, delay_ms: float) -> None:
        self._timer_ms = self._clock.monotonic_ms() + delay_ms
        self._timer = self._clock.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._due_ms is None:
            return
        left_ms = self._due_ms - self._clock.monotonic_ms()
        if left_ms > _TOLERANCE_MS:
            self._arm(left_ms)
        else:
            self._due_ms = None
            self._callback()
