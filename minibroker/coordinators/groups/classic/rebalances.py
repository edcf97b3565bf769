"""Rebalances of a classic group, and session timeouts (`GroupCoordinator` in Kafka 3, `GroupMetadataManager` in 4).

A rebalance waits for JoinGroup of every member (`DelayedJoin`), no longer than the slowest member's rebalance timeout;
the first one of an empty group waits for `group.initial.rebalance.delay.ms` instead (`InitialDelayedJoin`). Then the
members have as long again to ask for their assignment (`DelayedSync`). Members whose session ends are removed.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Final
from weakref import WeakSet

from minibroker.clock import Timer
from minibroker.cluster.advice import LOST_GROUPS, about_lost_members
from minibroker.cluster.core import Core
from minibroker.coordinators.groups.classic.client_quirks import EarlyJoiner
from minibroker.coordinators.groups.classic.group import Group, GroupState, Member
from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

NO_GENERATION: Final = -1
NO_LEADER: Final = ""
UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has none."""
_NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""A member that has not got its first answer cannot send heartbeats: it is waited for so long."""
_SHORTEST_WAIT_MS: Final = 10
"""A member may name no time at all; a group that waits for it again and again still leaves the broker alone."""
_FIRST_HOLD_MS: Final = 200
_EXPECTED_JOIN_MS: Final = 100
_METADATA_HEAD_START_MS: Final = 3
_DEFERRED_JOIN_MS: Final = 200
_logger = logging.getLogger(__name__)


class _JoinWait:
    """A rebalance that waits for members.

    Attributes:
        extension_ms: by how much an initial delay may still be extended.
        may_end: returns whether the wait may end before its time is up.
    """

    __slots__ = ("extension_ms", "may_end", "timer")

    def __init__(self, timer: Timer, extension_ms: int = 0) -> None:
        self.timer = timer
        self.extension_ms = extension_ms
        self.may_end: Callable[[], bool] = lambda: False


class Rebalances:
    """The rebalances of all groups, and the sessions of their members."""

    def __init__(self, core: Core, store: GroupStore) -> None:
        self._advised = core.advised
        self._call_soon = core.call_soon
        self._clock = core.clock
        self._store = store
        self._initial_delay_ms = core.config.integer("group.initial.rebalance.delay.ms")
        self._works_around_clients = core.config.boolean("minibroker.client.workarounds.enable")
        self._max_size = core.config.integer("group.max.size")
        self._join_waits: dict[Group, _JoinWait] = {}
        self._early_joiners: WeakSet[EarlyJoiner] = WeakSet()
        self._expected_joins: dict[str, list[Timer]] = {}
        self._deferred_joins: dict[Group, list[Callable[[], None]]] = {}
        self._sync_waits: dict[Group, Timer] = {}

    # Members come and go

    def add(self, group: Group, member: Member) -> None:
        """Add a new member, whose JoinGroup is delayed already, and rebalance the group."""
        member.is_new = True
        # Each newcomer extends the initial delay: a fleet that starts together gets one rebalance, not one for each
        # consumer.
        if group.is_in(GroupState.PREPARING_REBALANCE) and group.generation == 0:
            group.new_member_added = True
        group.add(member)
        self._restart_session(group, member, _NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.maybe_prepare(group)

    def expect(self, group: Group, member_id: str, session_timeout_ms: int) -> None:
        """Wait for a member to join again with the id that it got (KIP-394)."""
        deadline = group.pending[member_id] = Deadline(self._clock, partial(self.remove_pending, group, member_id))
        deadline.restart(session_timeout_ms)

    def remove(self, group: Group, member: Member) -> None:
        """Remove a member that leaves or has failed. Its waiting requests get UNKNOWN_MEMBER_ID."""
        group.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))  # Kafka does not answer this one at all
        group.remove(member.member_id)
        # It may have been the last one that was waited for.
        if group.is_in(GroupState.PREPARING_REBALANCE):
            self.maybe_complete_join(group)
        elif not group.is_in(GroupState.EMPTY, GroupState.DEAD):
            self.prepare(group)

    def remove_pending(self, group: Group, member_id: str) -> None:
        """Remove a member that has left or expired before it joined with its new id."""
        group.remove(member_id)
        self.maybe_complete_join(group)

    def restart_session(self, group: Group, member: Member) -> None:
        """Restart the session of a member."""
        self._restart_session(group, member, member.session_timeout_ms)

    def _restart_session(self, group: Group, member: Member, timeout_ms: int) -> None:
        if member.session is None:
            member.session = Deadline(self._clock, partial(self._on_session_end, group, member))
        member.session.restart(timeout_ms)

    def _on_session_end(self, group: Group, member: Member) -> None:
        # Who waits for an answer cannot send heartbeats; its session begins again with the answer.
        if member.is_new or (member.join is None and member.sync is None):
            _logger.info("Member %s of group %s has failed", member.member_id, group.group_id)
            self.remove(group, member)
            if not group.members:
                about = about_lost_members(group.group_id, member.session_timeout_ms)
                self._advised.advise(LOST_GROUPS, group.group_id, about)

    def resume(self, group: Group) -> None:
        """Start the sessions of the members of a group that was loaded."""
        # `group.max.size` was lowered since: a rebalance lets the surplus go, as in Kafka (KIP-389).
        if len(group.members) > self._max_size:
            self.prepare(group)
        for member in tuple(group.members.values()):
            self.restart_session(group, member)

    def forget(self, group: Group, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Forget a group that is gone. Its waiting requests get `code`, by default NOT_COORDINATOR."""
        is_idle = group.state is GroupState.EMPTY and not group.pending
        group.die()
        if is_idle:  # as most of the groups that go together
            return
        self._end_join_wait(group)
        self._end_sync_wait(group)
        for member in tuple(group.members.values()):
            group.answer_join(member, join_error(code, member.member_id))
            self.answer_sync(member, sync_error(code))
            group.remove(member.member_id)
        for member_id in tuple(group.pending):
            group.remove(member_id)

    def close(self) -> None:
        """Cancel all timers."""
        for wait in self._join_waits.values():
            wait.timer.cancel()
        for timer in chain(self._sync_waits.values(), *self._expected_joins.values()):
            timer.cancel()
        self._join_waits.clear()
        self._sync_waits.clear()
        for group in self._store.classic_groups():
            for deadline in group.pending.values():
                deadline.cancel()
            for member in group.members.values():
                if member.session is not None:
                    member.session.cancel()

    # Waiting for JoinGroup

    def maybe_prepare(self, group: Group) -> None:
        """Begin a rebalance if the group is not in one."""
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY):
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Begin a rebalance: all members have to join again."""
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            # They wait for an assignment of a generation that is over.
            self.end_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._end_sync_wait(group)
        is_initial = group.is_in(GroupState.EMPTY)
        group.move_to(GroupState.PREPARING_REBALANCE)
        # All may have joined already, such as the only member: then there is no wait.
        if not is_initial and group.members:
            self._wait_for_joins(group)
            self.maybe_complete_join(group)
        elif is_initial and self._initial_delay_ms > 0:
            # No member may wait for longer than its own rebalance timeout, however many come after it.
            left_ms = max(group.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self._wait_for_more(group, self._initial_delay_ms, left_ms)
        elif is_initial:
            self._hold_or_complete(group)
        else:
            self._complete_join(group)

    def _wait_for_joins(self, group: Group) -> None:
        delay_ms = max(group.rebalance_timeout_ms, _SHORTEST_WAIT_MS)
        timer = self._clock.call_later(delay_ms, partial(self._complete_join, group))
        wait = self._join_waits[group] = _JoinWait(timer)
        wait.may_end = lambda: group.all_have_joined

    def _wait_for_more(self, group: Group, delay_ms: int, extension_ms: int) -> None:
        timer = self._clock.call_later(delay_ms, partial(self._on_initial_delay, group))
        self._join_waits[group] = _JoinWait(timer, extension_ms)

    def _on_initial_delay(self, group: Group) -> None:
        left_ms = self._join_waits[group].extension_ms
        if group.new_member_added and left_ms:
            group.new_member_added = False
            delay_ms = min(self._initial_delay_ms, left_ms)
            self._wait_for_more(group, delay_ms, left_ms - delay_ms)
        else:
            self._hold_or_complete(group)

    def note_lookup(self, joiner: EarlyJoiner, group_ids: Iterable[str]) -> None:
        """Note that an early joiner is about to join one of these groups."""
        joiner.group_ids.update(group_ids)
        self._early_joiners.add(joiner)

    def expect_join(self, group_id: str) -> None:
        """Expect a client that has looked a group up to join it, for a short while."""
        timer = self._clock.call_later(_EXPECTED_JOIN_MS, partial(self.end_expected_join, group_id))
        self._expected_joins.setdefault(group_id, []).append(timer)

    def end_expected_join(self, group_id: str) -> None:
        """End the oldest expectation of a group: a member has joined, or none has in time."""
        timers = self._expected_joins.get(group_id)
        if not timers:
            return
        timers.pop(0).cancel()
        if not timers:
            del self._expected_joins[group_id]
        group = self._store.find(group_id)
        if isinstance(group, Group):
            self.maybe_complete_join(group)

    def _hold_or_complete(self, group: Group) -> None:
        """Begin the first generation, or hold it shortly for what other requests are about to bring (`_may_begin`)."""
        self._end_join_wait(group)
        leader = group.members.get(group.leader or "")
        if leader is None or not self._works_around_clients:
            self._complete_join(group)
            return
        topics: frozenset[str] = leader.subscribed_topics() if leader.joins_early else frozenset()
        joiners = [joiner for joiner in self._early_joiners if topics and group.group_id in joiner.group_ids]
        may_begin = partial(self._may_begin, group, leader, joiners, topics)
        if may_begin():
            self._complete_join(group)
            return
        timer = self._clock.call_later(_FIRST_HOLD_MS, partial(self._complete_join, group))
        wait = self._join_waits[group] = _JoinWait(timer)
        wait.may_end = may_begin
        for joiner in joiners:
            joiner.on_metadata = partial(self._on_metadata, group, wait)

    def _may_begin(self, group: Group, leader: Member, joiners: Iterable[EarlyJoiner], topics: frozenset[str]) -> bool:
        """Return whether no member is pending or expected, and kafka-python 3 has asked for its topics.

        Static members are never pending, so they do not wait for others. Which of the connections that have looked the
        group up is the leader's cannot be known, so all of them count.
        """
        is_expecting = group.pending or group.group_id in self._expected_joins
        return (leader.is_static or not is_expecting) and all(topics <= joiner.topics for joiner in joiners)

    def _on_metadata(self, group: Group, wait: _JoinWait) -> None:
        # The two responses leave by different connections; the client has to see that of Metadata first.
        if self._join_waits.get(group) is wait and wait.may_end():
            wait.timer.cancel()
            wait.timer = self._clock.call_later(_METADATA_HEAD_START_MS, partial(self._complete_join, group))

    def maybe_complete_join(self, group: Group) -> None:
        """End the wait if all members have joined."""
        wait = self._join_waits.get(group)
        if wait is not None and wait.may_end():
            self._complete_join(group)

    def _end_join_wait(self, group: Group) -> None:
        wait = self._join_waits.pop(group, None)
        if wait is not None:
            wait.timer.cancel()

    def _complete_join(self, group: Group) -> None:
        """The next generation begins with those that are here; static members may be away (`onCompleteJoin`)."""
        self._end_join_wait(group)
        for member in [each for each in group.members.values() if each.join is None and not each.is_static]:
            group.remove(member.member_id)
        # Only static members are left, and all are away: no one could assign. They keep their places for a session
        # (KIP-345).
        if group.members and not group.elect_leader():
            self._wait_for_joins(group)  # until the sessions of those that are away have ended
            return
        group.begin_generation()
        if group.is_in(GroupState.EMPTY):
            code = self._store.save_group(group)
            if code:  # after a start the last generation would be back, and its members would fail again
                _logger.warning("Group %s is empty; its new state could not be stored: %s", group.group_id, code.name)
            return
        for member in tuple(group.members.values()):
            group.answer_join(member, joined(group, member))
            self.restart_session(group, member)
            member.is_new = False
            # A member may send heartbeats and never sync: without this wait the group would hang (KAFKA-12890).
            group.pending_sync.add(member.member_id)
        delay_ms = max(group.rebalance_timeout_ms, _SHORTEST_WAIT_MS)
        self._sync_waits[group] = self._clock.call_later(delay_ms, partial(self._on_sync_timeout, group))

    # Waiting for SyncGroup

    def note_sync(self, group: Group, member: Member) -> None:
        """Note that a member has asked for its assignment."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._end_sync_wait(group)

    def is_awaiting_sync(self, group: Group) -> bool:
        """Return whether a member that backs off if its SyncGroup is refused has not sent it yet."""
        return group.is_in(GroupState.COMPLETING_REBALANCE) and any(
            member.backs_off and member.member_id in group.pending_sync for member in group.members.values()
        )

    def defer_join(self, group: Group, join: Callable[[], None]) -> None:
        """Call `join` once all members have sent their SyncGroup, or a little later."""
        self._deferred_joins.setdefault(group, []).append(join)
        self._clock.call_later(_DEFERRED_JOIN_MS, partial(self._run_deferred_joins, group))

    def _run_deferred_joins(self, group: Group) -> None:
        for join in self._deferred_joins.pop(group, ()):
            join()

    def _end_sync_wait(self, group: Group) -> None:
        group.pending_sync.clear()
        if group in self._deferred_joins:
            self._call_soon(partial(self._run_deferred_joins, group))
        timer = self._sync_waits.pop(group, None)
        if timer is not None:
            timer.cancel()

    def _on_sync_timeout(self, group: Group) -> None:
        del self._sync_waits[group]
        late = tuple(group.pending_sync)
        if late:
            _logger.info("Members %s of group %s have not synced in time", ", ".join(late), group.group_id)
            for member_id in late:
                group.remove(member_id)
            self.prepare(group)

    def assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        """The leader has assigned: write it, then answer everyone; if writing fails, everyone joins again."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        # On disk before any member gets it: after a crash all must find the same generation and leader.
        code = self._store.save_group(group)
        self.end_syncs(group, code)
        if code:
            self.maybe_prepare(group)
        else:
            group.move_to(GroupState.STABLE)

    def end_syncs(self, group: Group, code: ErrorCode) -> None:
        """Answer every delayed SyncGroup; with an error no member has an assignment (`propagateAssignment`)."""
        for member in group.members.values():
            if code:
                member.assignment = b""
            if member.sync is not None:
                self.answer_sync(member, sync_error(code) if code else synced(group, member))
                self.restart_session(group, member)

    @staticmethod
    def answer_sync(member: Member, response: SyncGroupResponse) -> None:
        """Answer a member's SyncGroup, if it waits for one."""
        if member.sync is not None:
            reply, member.sync = member.sync, None
            reply.answer(response)


def join_error(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    """Return a refusal to join."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=[],
    )


def joined(
    group: Group, member: Member, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the generation that a member is part of; the response to the leader lists all members.

    With `leader` the response names another leader than the member itself.
    """
    leads = leader is None and group.leader == member.member_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=(group.leader if leader is None else leader) or NO_LEADER,
        skip_assignment=skip_assignment and leads,
        member_id=member.member_id,
        members=_members(group) if leads else [],
    )


def _members(group: Group) -> list[JoinGroupResponseMember]:
    name = group.protocol_name
    return [
        JoinGroupResponseMember(
            member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata(name)
        )
        for each in group.members.values()
    ]


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """Return the refusal of an assignment."""
    return SyncGroupResponse(error_code=code, protocol_type=None, protocol_name=None, assignment=b"")


def synced(group: Group, member: Member) -> SyncGroupResponse:
    """Return a member's assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
