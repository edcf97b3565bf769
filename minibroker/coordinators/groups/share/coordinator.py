"""The coordinator of share groups: heartbeats, departures, timeouts (`GroupMetadataManager.shareGroupHeartbeat`).

A partition is assigned once it has a state with
the share coordinator. That is begun after the heartbeat that brings its topic, so that a later heartbeat assigns it.
"""

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.features import SHARE_VERSION
from minibroker.config.releases import is_before
from minibroker.coordinators.groups.modern.answers import Answer, GroupRefusedError, fenced, no_such_group
from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions
from minibroker.coordinators.groups.modern.sessions import MemberSessions
from minibroker.coordinators.groups.modern.topics import TopicMetadata, known_topics
from minibroker.coordinators.groups.modern.topics_hash import hash_of
from minibroker.coordinators.groups.share import changes as records
from minibroker.coordinators.groups.share.group import ShareGroup, topics_of_all
from minibroker.coordinators.groups.share.member import ShareMember
from minibroker.coordinators.groups.share.preparation import (
    MANY_TOPICS,
    Preparation,
    in_parts,
    names_with,
    preparing,
    reconcile,
    topics_and_hash,
)
from minibroker.coordinators.groups.share.state_partitions import (
    NO_TOPICS,
    Indexes,
    StatePartitions,
    Topics,
    TopicState,
)
from minibroker.coordinators.groups.share.targets import ShareTargets
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.share_state.coordinator import ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker.core import Core
from minibroker.support.slices import Steps, Work
from minibroker_protocol.error_codes import ErrorCode

JOINING: Final = 0
"""The member epoch of a member that joins."""
LEAVING: Final = -1
"""The member epoch of a member that leaves."""
_NEVER: Final = 0
"""The epoch, and the time, of an assignment that has not been made."""
_BEFORE_MEMBERS: Final = 1
"""The epoch of a new group: its first member makes the next one, since Kafka 4.3."""
_logger = logging.getLogger(__name__)


class ShareHeartbeat(NamedTuple):
    """A member's heartbeat; None means no change."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: frozenset[str] | None
    client_id: str
    client_host: str


class ShareGroups:
    """All share groups, and what happens to them.

    Args:
        states: the share coordinator.
        forgotten: groups that were forgotten on purpose; their members have to join again.

    Attributes:
        states: as given; the coordinator is made when it is asked for.
        sessions: what time does to the members.
    """

    def __init__(
        self, core: Core, store: GroupStore, states: Callable[[], ShareCoordinator], forgotten: Container[str]
    ) -> None:
        self.core = core
        self.store = store
        self.states = states
        self._forgotten = forgotten
        self._has_intervals = not is_before(core.config.release, "4.3")
        self._targets = ShareTargets(core.slices, store)
        self.sessions = MemberSessions(core, self._session_timeout_ms, self._fence)

    @property
    def is_enabled(self) -> bool:
        """Are there such groups here (the feature share.version)?"""
        return self.core.features.level(SHARE_VERSION) > 0

    @property
    def max_size(self) -> int:
        """The most members that a group may have."""
        return self.core.config.integer("group.share.max.size")

    @property
    def retry_ms(self) -> int:
        """Milliseconds after which a state that was asked for and is not there is asked for again."""
        return self.core.config.integer("group.share.initialize.retry.interval.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Milliseconds between two heartbeats of a member."""
        return self.core.configs.group(group_id).share_heartbeat_interval_ms

    def existing(self, group_id: str) -> ShareGroup:
        """The group. GroupRefusedError: GROUP_ID_NOT_FOUND."""
        group = self.store.find(group_id)
        if not isinstance(group, ShareGroup):
            raise no_such_group("share", group_id, group)
        return group

    def existing_or_new(self, group_id: str) -> ShareGroup:
        """The group, which may be a new one. GroupRefusedError: GROUP_ID_NOT_FOUND where it is of another kind."""
        if self.store.find(group_id) is None:
            return ShareGroup(group_id, self.core.clock)
        return self.existing(group_id)

    # Heartbeats

    def is_large(self, request: ShareHeartbeat) -> bool:
        """Whether a heartbeat is about so many topics that it should be prepared."""
        if request.topics is not None and len(request.topics) > MANY_TOPICS:
            return True
        group = self.store.find(request.group_id)
        return isinstance(group, ShareGroup) and len(group.subscribed_topics()) > MANY_TOPICS

    def preparing(self, request: ShareHeartbeat) -> Steps[Preparation | None]:
        """Find out in steps what needs no group; None for a heartbeat that will be refused."""
        group = None if request.epoch == LEAVING else self.store.find(request.group_id)
        if group is None and request.epoch == JOINING:
            group = ShareGroup(request.group_id, self.core.clock)
        if not isinstance(group, ShareGroup):
            return None
        member = group.members.get(request.member_id, ShareMember(request.member_id))
        return (yield from preparing(group, _updated(member, request), self.core.topics))

    def heartbeat(self, request: ShareHeartbeat, prepared: Preparation | None = None) -> Answer:
        """A member joins or is heard of; its topics may be prepared. GroupRefusedError."""
        joins = request.epoch == JOINING
        group = self._group_for(request.group_id, joins=joins)
        if len(group.members) >= self.max_size and request.member_id not in group.members:
            raise GroupRefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has {self.max_size} members, and may have no more."
            )
        member = group.members.get(request.member_id)
        if member is None:
            if not joins:
                raise GroupRefusedError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"Member {request.member_id} is not a member of group {group.group_id}.",
                )
            member = ShareMember(request.member_id)
        _check_epoch(member, request.epoch)
        moved = self._advance(group, member, _updated(member, request), prepared)
        self.sessions.heard(group, moved.member_id)
        is_told = joins or request.topics is not None or moved.assigned != member.assigned
        return Answer(moved.member_id, moved.epoch, moved.assigned if is_told else None)

    def _group_for(self, group_id: str, *, joins: bool) -> ShareGroup:
        if joins:
            return self.existing_or_new(group_id)
        if self.store.find(group_id) is None:
            if group_id in self._forgotten:
                raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} was reset.")  # it joins again
            raise GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return self.existing(group_id)

    def _advance(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, prepared: Preparation | None
    ) -> ShareMember:
        """The member after its heartbeat, once all that changes is written. GroupRefusedError."""
        changes: list[Change] = []
        if updated != member:
            changes.append(records.member_metadata(group.group_id, updated))
        bumps = updated.topics != member.topics
        bumps |= group.assignment_epoch >= group.epoch and group.waits_for_assignment()
        named = names_with(group, updated.member_id, updated.topics)
        found, metadata_hash = topics_and_hash(group, named, self.core.topics, prepared)
        epoch = group.epoch
        if bumps or found is not group.topics:
            bumps |= metadata_hash != group.metadata_hash
            if bumps:
                epoch = max(epoch, _BEFORE_MEMBERS if self._has_intervals else 0) + 1
                changes.append(records.group_epoch(group.group_id, epoch, metadata_hash))
        work, target_epoch, target, epoch = self._target(group, updated, found, metadata_hash, epoch, changes)
        moved = reconcile(updated, target_epoch, target, found, has_new_topics=bumps)
        if moved != updated:
            ready = None if prepared is None or prepared.moved != moved else prepared.change
            changes.append(ready or records.current_assignment(group.group_id, moved))
        missing = self._missing(group, found) if len(found) <= MANY_TOPICS else NO_TOPICS
        if missing:
            changes.append(records.state_partitions(group.group_id, group.partitions.begun(missing)))
        code = self.store.save_changes(group, changes)
        if code:
            raise GroupRefusedError(code)
        group.topics = found
        if work is not None:
            self._targets.await_target(group, work, epoch)
        if missing:
            self.core.call_soon(partial(self._begin, group, self._beginning_states(group, missing, epoch)))
        elif len(found) > MANY_TOPICS and not group.is_beginning and not _is_complete(group, found):
            group.is_beginning = True
            self.core.call_soon(partial(self._begin, group, self._beginning_missing(group, found, epoch)))
        return moved

    def _target(
        self,
        group: ShareGroup,
        updated: ShareMember,
        found: Mapping[str, TopicMetadata],
        metadata_hash: int,
        epoch: int,
        changes: list[Change],
    ) -> tuple[Work[dict[str, Partitions]] | None, int, Partitions, int]:
        """The work that makes a target, if there is one; the present target with its epoch; the group's epoch."""
        target_epoch, target = group.assignment_epoch, group.target_of(updated.member_id)
        if target_epoch >= epoch or group.is_assigning or not self._may_assign(group):
            return None, target_epoch, target, epoch
        members = {**group.members, updated.member_id: updated}
        made = self._targets.begin(group, members, found)
        if isinstance(made, Work):
            if target_epoch <= _NEVER:  # the members need an epoch in which they may wait
                target_epoch = epoch
                changes.append(records.assignment_epoch(group.group_id, epoch, self.store.now_ms()))
                epoch += 1
                changes.append(records.group_epoch(group.group_id, epoch, metadata_hash))
            return made, target_epoch, target, epoch
        changes += self._targets.changes(group, made, epoch)
        return None, epoch, made.get(updated.member_id, NOTHING), epoch

    def _may_assign(self, group: ShareGroup) -> bool:
        """Return whether the last assignment is old enough, as it always is before Kafka 4.3."""
        if not self._has_intervals:
            return True
        interval_ms = self.core.configs.group(group.group_id).share_assignment_interval_ms
        return not interval_ms or not group.assigned_ms or self.store.now_ms() >= group.assigned_ms + interval_ms

    # Departures

    def leave(self, group_id: str, member_id: str) -> Answer:
        """A member leaves. GroupRefusedError."""
        group = self.existing(group_id)
        if member_id not in group.members:
            raise GroupRefusedError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
        code = self._fence(group, member_id)
        if code:
            raise GroupRefusedError(code)
        return Answer(member_id, LEAVING, None)

    def _fence(self, group: ShareGroup, member_id: str) -> ErrorCode:
        """A member is gone."""
        left = topics_of_all(each for each in group.members.values() if each.member_id != member_id)
        found = known_topics(self.core.topics, left, group.topics)
        changes = records.without_member(group.group_id, member_id)
        epoch = group.epoch + 1
        changes.append(records.group_epoch(group.group_id, epoch, hash_of(found)))
        if group.members.keys() == {member_id}:  # no member is left to make a target for, since Kafka 4.4
            changes.append(records.assignment_epoch(group.group_id, epoch, _NEVER))
        code = self.store.save_changes(group, changes)
        if not code:
            group.topics = found
            self.sessions.end(group, member_id)
        return code

    # Time

    def _session_timeout_ms(self, group: ShareGroup, _member_id: str) -> int:
        return self.core.configs.group(group.group_id).share_session_timeout_ms

    def resume(self, group: ShareGroup) -> None:
        """A group has been read: its members have a session's time."""
        for member_id in tuple(group.members):
            self.sessions.heard(group, member_id)

    def close(self) -> None:
        """Nothing happens any more, whatever time it is."""
        for group in self.store.share_groups():
            self.sessions.forget(group, is_gone=False)

    def rebalance(self, group: ShareGroup) -> ErrorCode:
        """Have the group make another assignment, as if a member had come or gone."""
        change = records.group_epoch(group.group_id, group.epoch + 1, group.metadata_hash)
        return self.store.save_changes(group, [change])

    # States of partitions

    def _missing(self, group: ShareGroup, found: Mapping[str, TopicMetadata]) -> Topics:
        """The partitions of subscribed topics that need a state."""
        counts = {topic.topic_id: (name, topic.partitions) for name, topic in found.items()}
        return group.partitions.missing(counts, self.store.now_ms(), self.retry_ms)

    def _begin(self, group: ShareGroup, steps: Steps[None]) -> None:
        """After the heartbeat (`GroupCoordinatorService.persisterInitialize`)."""
        begun = self.core.slices.begin(steps)
        if isinstance(begun, Work):
            begun.then(_nothing, partial(_has_failed, group))

    def _beginning_missing(self, group: ShareGroup, found: Mapping[str, TopicMetadata], epoch: int) -> Steps[None]:
        """In a large group, the partitions that need a state are looked for after the heartbeat, too."""
        try:
            while self.store.find(group.group_id) is group:
                before = group.partitions
                missing: dict[bytes, TopicState] = {}
                for some in in_parts(found):
                    missing.update(before.missing(some, self.store.now_ms(), self.retry_ms))
                    yield
                if not missing:
                    if not before.initializing:
                        group.complete = found, before
                    return
                yield
                code = yield from self._save(group, before, before.begun(missing))
                if code == ErrorCode.NONE:
                    yield
                    yield from self._beginning_states(group, missing, epoch)
                if code is not None:
                    return
        finally:
            group.is_beginning = False

    def _beginning_states(self, group: ShareGroup, missing: Topics, epoch: int) -> Steps[None]:
        states = self.states()
        for topic_id, topic in missing.items():
            for index in sorted(topic.partitions):
                outcome = states.initialize(SharePartitionKey(group.group_id, topic_id, index), epoch, UNKNOWN)
                if outcome.code:
                    _logger.warning(
                        "The state of %s-%s of group %s could not be made: %s",
                        topic.name, index, group.group_id, outcome.code.name,
                    )  # fmt: skip
                    given_up = {each: state.partitions for each, state in missing.items()}
                    yield from self._saving(group, partial(_given_up, given_up))
                    return
                yield
        yield from self._saving(group, partial(_done, missing))

    def _saving(self, group: ShareGroup, change: Callable[[StatePartitions], StatePartitions]) -> Steps[None]:
        """Store share-partitions that have changed; what changes them meanwhile comes first."""
        while self.store.find(group.group_id) is group:
            before = group.partitions
            code = yield from self._save(group, before, change(before))
            if code is not None:
                return

    def _save(self, group: ShareGroup, before: StatePartitions, after: StatePartitions) -> Steps[ErrorCode | None]:
        """Store share-partitions; None, and nothing is stored, if something else has changed them meanwhile."""
        record = records.state_partitions(group.group_id, after)
        if max(len(before.initializing), len(after.initializing)) > MANY_TOPICS:
            yield
        if group.partitions is not before:
            return None
        code = self.store.save_changes(group, [record])
        if code:
            _could_not_store(group, code)
        return code


def _updated(member: ShareMember, request: ShareHeartbeat) -> ShareMember:
    """The member as the heartbeat describes it."""
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if request.topics is None else request.topics,
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _is_complete(group: ShareGroup, found: Mapping[str, TopicMetadata]) -> bool:
    """Whether the partitions of these topics were found to have their states, and nothing has changed since."""
    return group.complete is not None and group.complete[0] is found and group.complete[1] is group.partitions


def _done(topics: Topics, partitions: StatePartitions) -> StatePartitions:
    return partitions.done(topics)


def _given_up(indexes: Indexes, partitions: StatePartitions) -> StatePartitions:
    return partitions.given_up(indexes)


def _could_not_store(group: ShareGroup, code: ErrorCode) -> None:
    _logger.warning("The share-partitions of group %s could not be stored: %s", group.group_id, code.name)


def _nothing(_: None) -> None:
    pass


def _has_failed(group: ShareGroup, error: Exception) -> None:
    _logger.error("The states of group %s could not be made", group.group_id, exc_info=error)


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Is it the epoch that the member is in, or the one before? GroupRefusedError."""
    if epoch in {JOINING, member.epoch} or (epoch < member.epoch and epoch == member.previous_epoch):
        return
    clause = f", and it does not match the previous member epoch ({member.previous_epoch})"
    raise fenced("share", epoch, member.epoch, clause if epoch < member.epoch else "")
