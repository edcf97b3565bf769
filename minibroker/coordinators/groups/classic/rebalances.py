"""Rebalances of a classic group, and session timeouts (`GroupCoordinator` in Kafka 3, `GroupMetadataManager` in 4).

A rebalance waits until every member has sent its JoinGroup (`DelayedJoin`), for at most the longest rebalance timeout
of any member. The first rebalance of an empty group waits for `group.initial.rebalance.delay.ms` instead
(`InitialDelayedJoin`). Then the members have the same time to send their SyncGroup (`DelayedSync`). Members whose
session ends are removed.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final
from weakref import WeakSet

from minibroker.clock import Timer
from minibroker.cluster.advice import LOST_GROUPS, explain_lost_members
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
"""The member id in a response to a client that has none."""
_NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""The session timeout of a member that waits for its first response, and therefore cannot send heartbeats."""
_MIN_WAIT_MS: Final = 10
"""The minimum wait for members. A member can set a timeout of 0, and repeated waits must not overload the broker."""
_FIRST_HOLD_MS: Final = 200
_EXPECTED_JOIN_MS: Final = 100
_METADATA_HEAD_START_MS: Final = 3
_DEFERRED_JOIN_MS: Final = 200
_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _JoinWait:
    """The phase of a rebalance that waits for members to join.

    Attributes:
        extension_ms: The remaining time, in milliseconds, by which the initial delay can be extended.
        may_end: Returns whether the wait can end before the timer fires.
    """

    timer: Timer
    extension_ms: int = 0
    may_end: Callable[[], bool] = lambda: False


class Rebalances:
    """The rebalances of all groups, and the sessions of their members."""

    def __init__(self, core: Core, store: GroupStore) -> None:
        self._advised = core.advice
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

    def add(self, group: Group, member: Member) -> None:
        """Add a new member and rebalance the group. The member's JoinGroup must already be waiting."""
        member.is_new = True
        # Each new member extends the initial delay, so that consumers started together share one rebalance instead of
        # causing one each.
        if group.is_in(GroupState.PREPARING_REBALANCE) and group.generation == 0:
            group.new_member_added = True
        group.add(member)
        self.restart_session(group, member, _NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.maybe_prepare(group)

    def expect(self, group: Group, member_id: str, session_timeout_ms: int) -> None:
        """Wait for a client to join again with its new member id (KIP-394)."""
        deadline = group.pending[member_id] = Deadline(self._clock, partial(self.remove_pending, group, member_id))
        deadline.restart(session_timeout_ms)

    def remove(self, group: Group, member: Member) -> None:
        """Remove a member that leaves or has failed. Its waiting requests get UNKNOWN_MEMBER_ID."""
        group.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        # Unlike Kafka, answer the member's waiting SyncGroup.
        self.answer_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        # The rebalance may have waited only for this member.
        if group.is_in(GroupState.PREPARING_REBALANCE):
            self.maybe_complete_join(group)
        elif not group.is_in(GroupState.EMPTY, GroupState.DEAD):
            self.prepare(group)

    def remove_pending(self, group: Group, member_id: str) -> None:
        """Remove a pending member that has left or expired before joining with its new id."""
        group.remove(member_id)
        self.maybe_complete_join(group)

    def restart_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Restart a member's session, by default with the timeout of the member."""
        if member.session is None:
            member.session = Deadline(self._clock, partial(self._on_session_end, group, member))
        member.session.restart(member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def _on_session_end(self, group: Group, member: Member) -> None:
        # A member that waits for a response cannot send heartbeats. Its session restarts with the response.
        if member.is_new or (member.join is None and member.sync is None):
            _logger.info("Member %s of group %s has failed", member.member_id, group.group_id)
            self.remove(group, member)
            if not group.members:
                advice = explain_lost_members(group.group_id, member.session_timeout_ms)
                self._advised.advise(LOST_GROUPS, group.group_id, advice)

    def resume(self, group: Group) -> None:
        """Start the sessions of the members of a loaded group."""
        # If `group.max.size` was lowered while the group was not loaded, a rebalance removes the excess members
        # (KIP-389).
        if len(group.members) > self._max_size:
            self.prepare(group)
        for member in tuple(group.members.values()):
            self.restart_session(group, member)

    def forget(self, group: Group, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Forget a removed group. Its waiting requests fail with the error `code`, by default NOT_COORDINATOR."""
        is_idle = group.state is GroupState.EMPTY and not group.pending
        group.die()
        if is_idle:  # Fast path: when many groups are removed together, most are idle.
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
        for group in self._store.groups():
            if isinstance(group, Group):
                for deadline in (*group.pending.values(), *(member.session for member in group.members.values())):
                    if deadline is not None:
                        deadline.cancel()

    def maybe_prepare(self, group: Group) -> None:
        """Begin a rebalance unless one is in progress."""
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY):
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Begin a rebalance, in which all members must join again."""
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            # Members that still wait for an assignment of the previous generation will never get one.
            self.end_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._end_sync_wait(group)
        is_initial = group.is_in(GroupState.EMPTY)
        group.move_to(GroupState.PREPARING_REBALANCE)
        # If all members have already joined, for example if there is only one, the wait ends immediately.
        if not is_initial and group.members:
            self._wait_for_joins(group)
            self.maybe_complete_join(group)
        elif is_initial and self._initial_delay_ms > 0:
            # No member waits longer than its own rebalance timeout, even if many others join after it.
            left_ms = max(group.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self._wait_for_more(group, self._initial_delay_ms, left_ms)
        elif is_initial:
            self._hold_or_complete(group)
        else:
            self._complete_join(group)

    def _wait_for_joins(self, group: Group) -> None:
        delay_ms = max(group.rebalance_timeout_ms, _MIN_WAIT_MS)
        timer = self._clock.call_later(delay_ms, partial(self._complete_join, group))
        self._join_waits[group] = _JoinWait(timer, may_end=lambda: group.all_have_joined)

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

    def record_lookup(self, joiner: EarlyJoiner, group_ids: Iterable[str]) -> None:
        """Record that an early joiner is about to join one of these groups."""
        joiner.group_ids.update(group_ids)
        self._early_joiners.add(joiner)

    def expect_join(self, group_id: str) -> None:
        """Expect a JoinGroup for a short time, because a client has looked up the group."""
        timer = self._clock.call_later(_EXPECTED_JOIN_MS, partial(self.end_expected_join, group_id))
        self._expected_joins.setdefault(group_id, []).append(timer)

    def end_expected_join(self, group_id: str) -> None:
        """Remove the oldest expected join of a group, because a member has joined or the join did not come in time."""
        if not (timers := self._expected_joins.get(group_id)):
            return
        timers.pop(0).cancel()
        if not timers:
            del self._expected_joins[group_id]
        group = self._store.find(group_id)
        if isinstance(group, Group):
            self.maybe_complete_join(group)

    def _hold_or_complete(self, group: Group) -> None:
        """Begin the first generation, or delay it briefly until `_may_begin` allows it."""
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
        wait = self._join_waits[group] = _JoinWait(timer, may_end=may_begin)
        for joiner in joiners:
            joiner.on_metadata = partial(self._on_metadata, group, wait)

    def _may_begin(self, group: Group, leader: Member, joiners: Iterable[EarlyJoiner], topics: frozenset[str]) -> bool:
        """Return whether no member is pending or expected, and kafka-python 3 has fetched the metadata of its topics.

        Static members are never pending, so a static leader does not wait for others. Any connection that has looked up
        the group could be the leader's, so all of them must have the metadata.
        """
        is_expecting = group.pending or group.group_id in self._expected_joins
        return (leader.is_static or not is_expecting) and all(topics <= joiner.topics for joiner in joiners)

    def _on_metadata(self, group: Group, wait: _JoinWait) -> None:
        # The client must receive the Metadata response before the JoinGroup response. They use different connections,
        # so the latter is delayed a little.
        if self._join_waits.get(group) is wait and wait.may_end():
            wait.timer.cancel()
            wait.timer = self._clock.call_later(_METADATA_HEAD_START_MS, partial(self._complete_join, group))

    def maybe_complete_join(self, group: Group) -> None:
        """End the wait if all members have joined."""
        wait = self._join_waits.get(group)
        if wait is not None and wait.may_end():
            self._complete_join(group)

    def _end_join_wait(self, group: Group) -> None:
        if (wait := self._join_waits.pop(group, None)) is not None:
            wait.timer.cancel()

    def _complete_join(self, group: Group) -> None:
        """Begin the next generation with the members that have joined, and absent static members (`onCompleteJoin`)."""
        self._end_join_wait(group)
        for member in tuple(group.members.values()):
            if member.join is None and not member.is_static:
                group.remove(member.member_id)
        # If all remaining members are static and have not joined, none of them can compute an assignment. They stay in
        # the group until their sessions end (KIP-345).
        if group.members and not group.elect_leader():
            self._wait_for_joins(group)  # The wait ends when these members join or their sessions end.
            return
        group.begin_generation()
        if group.is_in(GroupState.EMPTY):
            if code := self._store.save_group(group):  # A restart restores the old generation.
                _logger.warning("Group %s is empty; its new state could not be stored: %s", group.group_id, code.name)
            return
        for member in tuple(group.members.values()):
            group.answer_join(member, build_join_response(group, member))
            self.restart_session(group, member)
            member.is_new = False
            # A member can send heartbeats without ever sending SyncGroup. Without a timeout, the group would then wait
            # forever (KAFKA-12890).
            group.pending_sync.add(member.member_id)
        delay_ms = max(group.rebalance_timeout_ms, _MIN_WAIT_MS)
        self._sync_waits[group] = self._clock.call_later(delay_ms, partial(self._on_sync_timeout, group))

    def record_sync(self, group: Group, member: Member) -> None:
        """Record that a member has sent its SyncGroup."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._end_sync_wait(group)

    def is_awaiting_sync(self, group: Group) -> bool:
        """Return whether the group waits for the SyncGroup of a client that backs off if its SyncGroup is rejected."""
        return group.is_in(GroupState.COMPLETING_REBALANCE) and any(
            member.backs_off and member.member_id in group.pending_sync for member in group.members.values()
        )

    def defer_join(self, group: Group, join: Callable[[], None]) -> None:
        """Call `join` after all members have sent their SyncGroup, or after a short timeout."""
        self._deferred_joins.setdefault(group, []).append(join)
        self._clock.call_later(_DEFERRED_JOIN_MS, partial(self._run_deferred_joins, group))

    def _run_deferred_joins(self, group: Group) -> None:
        for join in self._deferred_joins.pop(group, ()):
            join()

    def _end_sync_wait(self, group: Group) -> None:
        group.pending_sync.clear()
        if group in self._deferred_joins:
            self._call_soon(partial(self._run_deferred_joins, group))
        if (timer := self._sync_waits.pop(group, None)) is not None:
            timer.cancel()

    def _on_sync_timeout(self, group: Group) -> None:
        del self._sync_waits[group]
        if late := tuple(group.pending_sync):
            _logger.info("Members %s of group %s have not synced in time", ", ".join(late), group.group_id)
            for member_id in late:
                group.remove(member_id)
            self.prepare(group)

    def assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        """Store the leader's assignments and answer all members. If the write fails, all members join again."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        # Store the group before any member gets its assignment. After a crash, all members then find the same
        # generation and leader.
        code = self._store.save_group(group)
        self.end_syncs(group, code)
        if code:
            self.maybe_prepare(group)
        else:
            group.move_to(GroupState.STABLE)

    def end_syncs(self, group: Group, code: ErrorCode) -> None:
        """Answer all waiting SyncGroup requests (`propagateAssignment`). An error in `code` clears all assignments."""
        for member in group.members.values():
            if code:
                member.assignment = b""
            if member.sync is not None:
                self.answer_sync(member, sync_error(code) if code else build_sync_response(group, member))
                self.restart_session(group, member)

    @staticmethod
    def answer_sync(member: Member, response: SyncGroupResponse) -> None:
        """Answer a member's waiting SyncGroup, if any."""
        if member.sync is not None:
            reply, member.sync = member.sync, None
            reply.answer(response)


def join_error(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    """Return a JoinGroup response with an error."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=[],
    )


def build_join_response(
    group: Group, member: Member, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return a JoinGroup response for a member of the current generation. Only the leader's response lists all members.

    If `leader` is given, the response names that member as the leader instead of the group's current leader.
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
        members=[
            JoinGroupResponseMember(
                member_id=listed.member_id,
                group_instance_id=listed.group_instance_id,
                metadata=listed.metadata(group.protocol_name),
            )
            for listed in (group.members.values() if leads else ())
        ],
    )


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup response with an error."""
    return SyncGroupResponse(error_code=code, protocol_type=None, protocol_name=None, assignment=b"")


def build_sync_response(group: Group, member: Member) -> SyncGroupResponse:
    """Return a SyncGroup response with a member's assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
