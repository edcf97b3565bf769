"""Deadlines that are often postponed, such as the end of a member's session.

A heartbeat only assigns a new time to a deadline, so its cost does not depend on the number of members. The timer is
not moved. If it fires too early, it is started again. Deadlines use the monotonic clock, so that setting the wall clock
does not end sessions.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from minibroker.clock import Clock, Timer

_TOLERANCE_MS: Final = 1
"""The time by which timers may fire early."""
_SESSION_EXPIRED: Final = "it was not heard of any more"
_REVOCATION_TIMEOUT: Final = "it did not give up its partitions in time"
_JOIN_TIMEOUT: Final = "it did not join again in time"
_SYNC_TIMEOUT: Final = "it did not ask for its assignment in time"


class Deadline:
    """A call that is made at a given time, unless it is postponed or canceled first."""

    __slots__ = ("_callback", "_clock", "_due_ms", "_timer", "_timer_ms")

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._due_ms: float | None = None
        self._timer: Timer | None = None
        self._timer_ms = 0.0

    @property
    def is_set(self) -> bool:
        """Whether the call is scheduled."""
        return self._due_ms is not None

    def restart(self, delay_ms: float) -> None:
        """Schedule the call for `delay_ms` from now, and replace any earlier schedule."""
        due_ms = self._due_ms = self._clock.monotonic_ms() + delay_ms
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._arm(delay_ms)

    def cancel(self) -> None:
        """Cancel the call."""
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


class MemberTimers:
    """The deadlines of a member of a modern group. Each deadline is created on first use.

    Args:
        fence: Removes the member. The argument is a reason for the log.
    """

    __slots__ = ("_clock", "_deadlines", "_fence")

    def __init__(self, clock: Clock, fence: Callable[[str], None]) -> None:
        self._clock = clock
        self._fence = fence
        self._deadlines: dict[str, Deadline] = {}  # Keyed by the reason for removing the member.

    def restart_session(self, session_timeout_ms: int) -> None:
        """Restart the member's session."""
        self._get_deadline(_SESSION_EXPIRED).restart(session_timeout_ms)

    def start_revocation(self, timeout_ms: int) -> None:
        """Set the deadline for revoking partitions or tasks."""
        self._get_deadline(_REVOCATION_TIMEOUT).restart(timeout_ms)

    def end_revocation(self) -> None:
        """Cancel the deadline for revoking partitions or tasks."""
        self._cancel(_REVOCATION_TIMEOUT)

    def start_join(self, timeout_ms: int) -> None:
        """Set a classic member's deadline for joining again, unless an earlier response has set it."""
        deadline = self._get_deadline(_JOIN_TIMEOUT)
        if not deadline.is_set:
            deadline.restart(timeout_ms)

    def end_join(self, sync_timeout_ms: int) -> None:
        """Cancel a classic member's deadline for joining again, and set its SyncGroup deadline."""
        self._cancel(_JOIN_TIMEOUT)
        self._get_deadline(_SYNC_TIMEOUT).restart(sync_timeout_ms)

    def end_sync(self) -> None:
        """Cancel a classic member's deadline for its SyncGroup."""
        self._cancel(_SYNC_TIMEOUT)

    def cancel(self) -> None:
        """Cancel all deadlines."""
        for deadline in self._deadlines.values():
            deadline.cancel()

    def _get_deadline(self, reason: str) -> Deadline:
        if (deadline := self._deadlines.get(reason)) is None:
            deadline = self._deadlines[reason] = Deadline(self._clock, partial(self._fence, reason))
        return deadline

    def _cancel(self, reason: str) -> None:
        if reason in self._deadlines:
            self._deadlines[reason].cancel()
