"""Session and rebalance timeouts of members: of consumer, share and streams groups."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from minibroker.clock import Clock
from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.core import Core
from minibroker.support.advice import LOST_GROUPS, about_lost_members
from minibroker_protocol.error_codes import ErrorCode

_logger = logging.getLogger(__name__)


class MemberTimers:
    """The deadlines of one member; each is made when it is first set.

    Args:
        fence: removes the member, for a reason that a log may show.
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
        """A member of the classic protocol has so long, from the first response that says so, to join again."""
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


class _Group(Protocol):
    group_id: str
    timers: dict[str, MemberTimers]

    @property
    def members(self) -> Mapping[str, object]: ...

    def die(self) -> None: ...


G = TypeVar("G", bound=_Group)


class MemberSessions(Generic[G]):
    """The timers of all members of one protocol's groups. A member that is silent for too long is removed.

    Args:
        timeout_ms: the milliseconds that a member of a group may be silent.
        fence: removes a member; the error, where that cannot be written.
    """

    def __init__(self, core: Core, timeout_ms: Callable[[G, str], int], fence: Callable[[G, str], ErrorCode]) -> None:
        self._core = core
        self._timeout_ms = timeout_ms
        self._fence = fence

    def of(self, group: G, member_id: str) -> MemberTimers:
        """The timers of a member."""
        timers = group.timers.get(member_id)
        if timers is None:
            timers = group.timers[member_id] = MemberTimers(
                self._core.clock, partial(self._on_deadline, group, member_id)
            )
        return timers

    def heard(self, group: G, member_id: str) -> MemberTimers:
        """The timers of a member whose session begins again."""
        timers = self.of(group, member_id)
        timers.heard(self._timeout_ms(group, member_id))
        return timers

    @staticmethod
    def end(group: G, member_id: str) -> None:
        """A member has left."""
        timers = group.timers.pop(member_id, None)
        if timers is not None:
            timers.cancel()

    @staticmethod
    def forget(group: G, *, is_gone: bool = True) -> None:
        """The group is gone, or of another protocol; its members learn of it with their next request."""
        if is_gone:
            group.die()
        for timers in group.timers.values():
            timers.cancel()
        group.timers.clear()

    def _on_deadline(self, group: G, member_id: str, reason: str) -> None:
        if member_id not in group.members:
            return
        _logger.info("Member %s of group %s is removed: %s", member_id, group.group_id, reason)
        session_ms = self._timeout_ms(group, member_id)
        code = self._fence(group, member_id)
        if code:  # it is looked at again after as long a silence
            _logger.warning("%s has left group %s; this could not be stored: %s", member_id, group.group_id, code.name)
            self.of(group, member_id).heard(session_ms)
        elif not group.members:
            about = about_lost_members(group.group_id, session_ms)
            self._core.advised.advise(LOST_GROUPS, group.group_id, about)
