"""The coordinator of consumer groups: heartbeats, departures, timeouts (Kafka's `GroupMetadataManager`).

How a group comes to this protocol and back is in `migration`, and what members of the
classic protocol may do in it in `classic_members`.
"""

import logging
from collections.abc import Callable, Collection, Container
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.cluster.features import GROUP_VERSION
from minibroker.coordinators.groups.assignors import named
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.classic.rebalances import Rebalances
from minibroker.coordinators.groups.consumer import changes as records
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.consumer.group_update import GroupUpdate
from minibroker.coordinators.groups.consumer.member import AWAY, JOINING, ConsumerMember
from minibroker.coordinators.groups.consumer.migration import Migration
from minibroker.coordinators.groups.consumer.reconciliation import UnknownStateError
from minibroker.coordinators.groups.consumer.rules import Rules
from minibroker.coordinators.groups.consumer.subscriptions import EVERYTHING, MayMatch
from minibroker.coordinators.groups.consumer.targets import Targets
from minibroker.coordinators.groups.modern.answers import Answer, GroupRefusedError, fenced, no_such_group
from minibroker.coordinators.groups.modern.member_state import MemberState
from minibroker.coordinators.groups.modern.partitions import Partitions, is_subset
from minibroker.coordinators.groups.modern.sessions import MemberSessions
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.store import GroupStore
from minibroker.core import Core
from minibroker.support.regular_expressions.expression import RegularExpression, RegularExpressionError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import NewRecord
from minibroker_protocol.uuids import new_uuid, uuid_text

if TYPE_CHECKING:
    from minibroker.security.authorization.authorizer import Authorizer

_NOT_SAID: Final = -1
_SHORTEST_INTERVAL_MS: Final = 100
_FIRST_EPOCH: Final = 1
"""The epoch of a group before its first member."""
_logger = logging.getLogger(__name__)


class Heartbeat(NamedTuple):
    """A member's heartbeat; None, or a rebalance timeout of -1, means no change.

    Attributes:
        member_id: empty if the coordinator is to choose one.
        epoch: the member's; see `minibroker.coordinators.groups.consumer.member`.
        owned: the partitions that it reads.
        may_describe: whether the member may know of a topic.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: frozenset[str] | None
    regex: str | None
    server_assignor: str | None
    owned: Partitions | None
    client_id: str
    client_host: str
    may_describe: Callable[[str], bool] | None = None


class ConsumerGroups:
    """All groups of the consumer protocol, and what happens to them.

    Args:
        rules: those of the release of Kafka that the broker emulates.

    Attributes:
        rules: as given.
        assignors: by name, the default one first.
        migration: how groups come from one protocol to the other.
        sessions: what time does to the members.
    """

    def __init__(
        self,
        core: Core,
        store: GroupStore,
        rebalances: Rebalances,
        authorizer: "Authorizer | None",
        forgotten: Container[str],
        rules: Rules,
    ) -> None:
        self._core = core
        self._store = store
        self._authorizer = authorizer
        self._forgotten = forgotten
        self._works_around_clients = core.config.boolean("minibroker.client.workarounds.enable")
        self.rules = rules
        self.assignors = named(core.config.items("group.consumer.assignors"), since_4_0=rules.since_4_0)
        self.migration = Migration(core, store, rebalances, rules)
        self._targets = Targets(core.slices, store, rules)
        self.sessions = MemberSessions(core, self._session_timeout_ms, self._fence_one)

    @property
    def is_enabled(self) -> bool:
        """Whether the configuration and the feature group.version, where the release has it, allow such groups."""
        features = self._core.features
        is_off = GROUP_VERSION in features.supported and not features.level(GROUP_VERSION)
        return not is_off and "consumer" in self._core.config.items("group.coordinator.rebalance.protocols")

    @property
    def max_size(self) -> int:
        """The most members that a group may have."""
        return self._core.config.integer("group.consumer.max.size")

    def session_timeout_ms(self, member: ConsumerMember, group_id: str) -> int:
        """Milliseconds that a member may be silent."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._core.configs.group(group_id).session_timeout_ms

    def heartbeat_interval_ms(self, group_id: str, *, is_short_at_first: bool = False) -> int:
        """Return the milliseconds until the next heartbeat of a member.

        They are few while a regular expression is being resolved, so that its members soon come for their partitions.
        Members also hand over partitions step by step, and each step waits for a heartbeat. With `is_short_at_first`
        the first intervals after a change of the group are half as long as the change is ago, at least 100 ms.
        """
        interval_ms = self._core.configs.group(group_id).heartbeat_interval_ms
        group = self._store.get_consumer(group_id)
        if group is None or not self._works_around_clients:
            return interval_ms
        if group.is_matching:
            return min(_SHORTEST_INTERVAL_MS, interval_ms)
        if not is_short_at_first:
            return interval_ms
        now_ms = int(self._core.clock.monotonic_ms())
        if group.seen_epoch != group.epoch:
            group.seen_epoch, group.seen_ms = group.epoch, now_ms
        return min(interval_ms, max(_SHORTEST_INTERVAL_MS, (now_ms - group.seen_ms) // 2))

    def existing(self, group_id: str) -> ConsumerGroup:
        """The group. GroupRefusedError: GROUP_ID_NOT_FOUND."""
        group = self._store.find(group_id)
        if not isinstance(group, ConsumerGroup):
            raise no_such_group("consumer", group_id, group)
        return group

    # Heartbeats

    def heartbeat(self, request: Heartbeat) -> Answer:
        """A member joins or is heard of. GroupRefusedError."""
        joins = request.epoch == JOINING
        group, before = self._group_for(request.group_id, joins=joins)
        self.check_room(group, request.member_id, request.instance_id)
        member_id = request.member_id or new_member_id()
        update = self.begin(group, request.may_describe)
        if request.instance_id is None:
            member = self.member(group, member_id, joins=joins)
            if not (joins and self.rules.since_4_2):
                _check_epoch(member, request)
        else:
            member = self._static_member(group, update, member_id, request)
        updated = replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=_latest(request.rebalance_timeout_ms, member.rebalance_timeout_ms),
            server_assignor=request.server_assignor or member.server_assignor,
            topics=member.topics if request.topics is None else request.topics,
            regex=member.regex if request.regex is None else request.regex,
            client_id=request.client_id,
            client_host=request.client_host,
            classic=None,
        )
        if updated.regex != member.regex:
            _check_regex(updated.regex)
        moved = self.advance(update, member, updated, request.owned)
        self.finish(group, update, moved, before)
        if update.has_new_regex:
            group.is_matching = True
            self._core.call_soon(partial(self._resolve_new_regex, group, request.may_describe))
        subscribes = request.topics is not None or request.regex is not None
        says_all = request.rebalance_timeout_ms != _NOT_SAID and subscribes and request.owned is not None
        is_told = joins or says_all or moved.assigned != member.assigned
        return Answer(moved.member_id, moved.epoch, moved.assigned if is_told else None)

    def _resolve_new_regex(self, group: ConsumerGroup, may_describe: Callable[[str], bool] | None) -> None:
        """Look up the topics of a regular expression for the group's next epoch."""
        if self._store.get_consumer(group.group_id) is not group:
            return
        group.is_matching = False
        update = self.begin(group, may_describe)
        update.resolve_new_regex()
        if not update.changes or not self._store.save_changes(group, update.changes):
            group.topics = update.topics

    def _group_for(self, group_id: str, *, joins: bool) -> tuple[ConsumerGroup, list[NewRecord]]:
        """The group, and the records that have to be written before any of its own."""
        group = self._store.find(group_id)
        if isinstance(group, ConsumerGroup):
            return group, []
        if not joins and group is None and group_id in self._forgotten:
            raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} was reset.")  # it joins again
        if not joins and group is None:
            raise GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if group is None:
            return self._new_group(group_id), []
        if not joins or not isinstance(group, Group):
            raise GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            return self._new_group(group_id, group.offsets), self._store.tombstones(group)
        upgraded = self.migration.upgrade(group, self.max_size)
        self.resume(upgraded)
        return upgraded, []

    def _new_group(self, group_id: str, offsets: GroupOffsets | None = None) -> ConsumerGroup:
        group = ConsumerGroup(group_id, offsets)
        if self.rules.since_4_3:
            group.epoch = group.assignment_epoch = _FIRST_EPOCH
        return group

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """GroupRefusedError: GROUP_MAX_SIZE_REACHED where one more does not fit."""
        if self.rules.since_4_4 and group.static_member(instance_id) is not None:
            return  # it takes a place that is there
        if len(group.members) >= self.max_size and member_id not in group.members:
            raise GroupRefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {self.max_size} members, and may have no more."
            )

    def begin(self, group: ConsumerGroup, may_describe: Callable[[str], bool] | None = None) -> GroupUpdate:
        """Begin an update of a group; `may_describe` is of the member that makes it, if one does."""
        authorizer = self._authorizer
        may_match: MayMatch | None = EVERYTHING
        if authorizer is not None:
            may_match = None if may_describe is None else MayMatch(may_describe, authorizer.changes)
        interval_ms = partial(self._assignment_interval_ms, group.group_id)
        return GroupUpdate(group, self._core.topics, self.assignors, may_match, self._targets, self.rules, interval_ms)

    def _assignment_interval_ms(self, group_id: str) -> int:
        return self._core.configs.group(group_id).assignment_interval_ms

    def member(self, group: ConsumerGroup, member_id: str, *, joins: bool) -> ConsumerMember:
        """The dynamic member, which may be a new one if it joins. GroupRefusedError."""
        member = group.members.get(member_id)
        if member is not None:
            return member
        if not joins:
            raise GroupRefusedError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
        return ConsumerMember(member_id)

    def _static_member(
        self, group: ConsumerGroup, update: GroupUpdate, member_id: str, request: Heartbeat
    ) -> ConsumerMember:
        """The member of an instance id; one that comes back takes the place that it had. GroupRefusedError."""
        known = group.static_member(request.instance_id)
        if request.epoch != JOINING:
            member = self.known_static(group, member_id, request.instance_id or "")
            _check_epoch(member, request)
            return member
        if known is None:
            return self.member(group, member_id, joins=True)
        if known.epoch != AWAY:
            raise GroupRefusedError(
                ErrorCode.UNRELEASED_INSTANCE_ID, f"Member {known.member_id} has the instance id {request.instance_id}."
            )
        return update.take_over(known, member_id)

    @staticmethod
    def known_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        """The member of an instance id, which has to have this member id. GroupRefusedError."""
        known = group.static_member(instance_id)
        if known is None:
            raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if known.member_id != member_id:
            raise GroupRefusedError(
                ErrorCode.FENCED_INSTANCE_ID, f"Member {known.member_id} has the instance id {instance_id} now."
            )
        return known

    @staticmethod
    def advance(
        update: GroupUpdate, member: ConsumerMember, updated: ConsumerMember, owned: Partitions | None
    ) -> ConsumerMember:
        """As `GroupUpdate.advance`. GroupRefusedError."""
        try:
            return update.advance(member, updated, owned)
        except UnknownStateError:
            raise GroupRefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH, "The member's state is unknown here: it must join again."
            ) from None

    def finish(
        self, group: ConsumerGroup, update: GroupUpdate, member: ConsumerMember, before: Collection[NewRecord] = ()
    ) -> None:
        """Write the update, and begin the member's session again. GroupRefusedError."""
        known = group.members.get(member.member_id)
        code = self._store.save_changes(group, update.changes, before)
        if code:
            raise GroupRefusedError(code)
        group.topics = update.topics
        if update.work is not None:
            self._targets.await_target(group, update.work, update.epoch)
        timers = self.sessions.of(group, member.member_id)
        if len(group.timers) > len(group.members):  # a member's place was taken
            for member_id in group.timers.keys() - group.members.keys():
                group.timers.pop(member_id).cancel()
        timers.heard(self.session_timeout_ms(member, group.group_id))
        if known is not None and known.to_current() == member.to_current():
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            timers.must_revoke(member.rebalance_timeout_ms)
        else:
            timers.has_revoked()

    # Departures

    def leave(self, group_id: str, member_id: str, instance_id: str | None, epoch: int) -> Answer:
        """A member leaves, for good or for a while. GroupRefusedError."""
        group = self.existing(group_id)
        if instance_id is None:
            member = self.member(group, member_id, joins=False)
        else:
            member = self.known_static(group, member_id, instance_id)
        if epoch == AWAY and instance_id is not None:
            away = member.gone_for_a_while(has_epochs=self.rules.since_4_3)
            code = self._store.save_changes(group, [records.current_assignment(group_id, away)])
            self.sessions.of(group, member.member_id).has_revoked()
        else:
            code = self.fence(group, [member.member_id])
        if code:
            raise GroupRefusedError(code)
        return Answer(member_id, epoch, None)

    def fence(self, group: ConsumerGroup, gone: Collection[str]) -> ErrorCode:
        """Members are gone. If the others all speak the classic protocol, the group does, too, where it may."""
        if self.migration.may_downgrade(group, gone):
            code = self.migration.downgrade(group, gone)
            if code is not None:
                if not code:
                    self.sessions.forget(group, is_gone=False)
                return code
        update = self.begin(group)
        update.without(gone)
        code = self._store.save_changes(group, update.changes)
        if not code:
            group.topics = update.topics
            for member_id in gone:
                self.sessions.end(group, member_id)
        return code

    def replace_last(
        self, group: ConsumerGroup, update: GroupUpdate, known: ConsumerMember, member: ConsumerMember
    ) -> bool:
        """A member of the classic protocol takes a static one's place; is the group a classic one now?

        It becomes one where it may, if that was the last member of the consumer protocol, as in Kafka 4
        (`validateOnlineDowngradeWithReplacedMember`); in 3.9.1 it does not. GroupRefusedError if it cannot be written.
        """
        if not self.migration.may_downgrade(group, [known.member_id], replaced=True):
            return False
        code = self.migration.downgrade_with(group, update, known.member_id, member)
        if code:
            raise GroupRefusedError(code)
        if code is not None:
            self.sessions.forget(group, is_gone=False)
        return code is not None

    # Time

    def _session_timeout_ms(self, group: ConsumerGroup, member_id: str) -> int:
        return self.session_timeout_ms(group.members[member_id], group.group_id)

    def _fence_one(self, group: ConsumerGroup, member_id: str) -> ErrorCode:
        return self.fence(group, [member_id])

    def resume(self, group: ConsumerGroup) -> None:
        """A group has been read, or has come from the other protocol: its members have a session's time."""
        for member in tuple(group.members.values()):
            timers = self.sessions.heard(group, member.member_id)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                timers.must_revoke(member.rebalance_timeout_ms)

    def close(self) -> None:
        """Nothing happens any more, whatever time it is."""
        for group in self._store.consumer_groups():
            self.sessions.forget(group, is_gone=False)

    def rebalance(self, group: ConsumerGroup) -> ErrorCode:
        """Have the group make another assignment, as if a member had come or gone."""
        change = records.group_epoch(group.group_id, group.epoch + 1, group.metadata_hash)
        return self._store.save_changes(group, [change])


def _check_epoch(member: ConsumerMember, request: Heartbeat) -> None:
    """Is it the epoch that the member is in? One before will do while it reads nothing else. GroupRefusedError."""
    if request.epoch == member.epoch:
        return
    missed = request.epoch < member.epoch and request.epoch == member.previous_epoch
    if not missed or request.owned is None or not is_subset(request.owned, member.assigned):
        raise fenced("consumer", request.epoch, member.epoch)


def _check_regex(regex: str) -> None:
    try:
        RegularExpression(regex)
    except RegularExpressionError as error:
        raise GroupRefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def _latest(requested: int, before: int) -> int:
    return before if requested == _NOT_SAID else requested


def new_member_id() -> str:
    """A name for a member without one."""
    return uuid_text(new_uuid())
