"""Session and rebalance timeouts of consumer group members."""

from collections.abc import Callable
from functools import partial

from minibroker.clock import Clock
from minibroker.coordinators.groups.deadlines import Deadline


class MemberTimers:
    """The deadlines of one member; each is made when it is first set.

    Args:
        fence: removes the member, for a reason that a log may tell.
    """

    __slots__ = ("_clock", "_fence", "_join", "_rebalance", "_session", "_sync")

    def __init__(self, clock: Clock, fence: Callable[[str], None]) -> None:
        self._clock = clock
        self._fence = fence
        self._session: Deadline | None = None
        self._rebalance: Deadline | None = None
        self._join: Deadline | None = None
        self._sync: Deadline | None = None

    def heard(self, session_timeout_ms: int) -> None:
        """It is alive: its session begins again."""
        if self._session is None:
            self._session = self._deadline("it was not heard of any more")
        self._session.restart(session_timeout_ms)

    def must_revoke(self, timeout_ms: int) -> None:
        """It has so long to give up what it has to."""
        if self._rebalance is None:
            self._rebalance = self._deadline("it did not give up its partitions in time")
        self._rebalance.restart(timeout_ms)

    def has_revoked(self) -> None:
        """There is nothing left that it has to give up."""
        if self._rebalance is not None:
            self._rebalance.cancel()

    def must_join(self, timeout_ms: int) -> None:
        """A member of the classic protocol has so long, from when it was first told, to join again."""
        if self._join is None:
            self._join = self._deadline("it did not join again in time")
        if not self._join.is_set:
            self._join.restart(timeout_ms)

    def has_joined(self, sync_timeout_ms: int) -> None:
        """It has joined again, and has so long to ask for its assignment."""
        if self._join is not None:
            self._join.cancel()
        if self._sync is None:
            self._sync = self._deadline("it did not ask for its assignment in time")
        self._sync.restart(sync_timeout_ms)

    def has_synced(self) -> None:
        """It has asked for its assignment."""
        if self._sync is not None:
            self._sync.cancel()

    def cancel(self) -> None:
        """It is gone: nothing happens to it any more."""
        for each in (self._session, self._rebalance, self._join, self._sync):
            if each is not None:
                each.cancel()

    def _deadline(self, reason: str) -> Deadline:
        return Deadline(self._clock, partial(self._fence, reason))
