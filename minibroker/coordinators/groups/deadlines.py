"""Deadlines that are postponed again and again, such as the end of a member's session, and those of a modern member.

A deadline is a number that each heartbeat moves; its timer stays where it is and looks again when it fires too early.
So a heartbeat costs an assignment, whatever the number of members. Time is the clock's monotonic one: setting the wall
clock must not end sessions.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from minibroker.clock import Clock, Timer

_TOLERANCE_MS: Final = 1
"""Timers may fire this much early; a deadline so near has come."""
_SESSION: Final = "it was not heard of any more"
_REVOCATION: Final = "it did not give up its partitions in time"
_JOIN: Final = "it did not join again in time"
_SYNC: Final = "it did not ask for its assignment in time"


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
        """Whether the call will happen."""
        return self._due_ms is not None

    def restart(self, delay_ms: float) -> None:
        """Schedule the call `delay_ms` from now, in the place of an earlier schedule."""
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
    """The deadlines of a member of a modern group; each is made when it is first set.

    Args:
        fence: removes the member, for a reason to log.
    """

    __slots__ = ("_clock", "_deadlines", "_fence")

    def __init__(self, clock: Clock, fence: Callable[[str], None]) -> None:
        self._clock = clock
        self._fence = fence
        self._deadlines: dict[str, Deadline] = {}  # by the reason for which the member is removed

    def heard(self, session_timeout_ms: int) -> None:
        """Restart the session of the member."""
        self._deadline(_SESSION).restart(session_timeout_ms)

    def must_revoke(self, timeout_ms: int) -> None:
        """Limit the time in which the member has to give up partitions or tasks."""
        self._deadline(_REVOCATION).restart(timeout_ms)

    def has_revoked(self) -> None:
        """Note that the member has nothing left to give up."""
        self._cancel(_REVOCATION)

    def must_join(self, timeout_ms: int) -> None:
        """Limit the time in which a classic member has to join again, from the first response that says so."""
        deadline = self._deadline(_JOIN)
        if not deadline.is_set:
            deadline.restart(timeout_ms)

    def has_joined(self, sync_timeout_ms: int) -> None:
        """Note that a classic member has joined again, and limit the time until its SyncGroup."""
        self._cancel(_JOIN)
        self._deadline(_SYNC).restart(sync_timeout_ms)

    def has_synced(self) -> None:
        """Note that a classic member has asked for its assignment."""
        self._cancel(_SYNC)

    def cancel(self) -> None:
        """Cancel all deadlines."""
        for deadline in self._deadlines.values():
            deadline.cancel()

    def _deadline(self, reason: str) -> Deadline:
        deadline = self._deadlines.get(reason)
        if deadline is None:
            deadline = self._deadlines[reason] = Deadline(self._clock, partial(self._fence, reason))
        return deadline

    def _cancel(self, reason: str) -> None:
        if reason in self._deadlines:
            self._deadlines[reason].cancel()
