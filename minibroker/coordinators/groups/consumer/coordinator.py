"""The coordinator of consumer groups: heartbeats, departures, timeouts (Kafka's `GroupMetadataManager`).

`migration` moves groups between the classic and the consumer protocol. `classic_members` serves members of the classic
protocol in consumer groups.
"""

from collections.abc import Callable, Collection, Container
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.cluster.core import Core
from minibroker.cluster.features import GROUP_VERSION
from minibroker.config.names.regular_expressions import RegularExpression, RegularExpressionError
from minibroker.coordinators.groups.assignors import find_assignors
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.classic.rebalances import Rebalances
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.consumer.group_update import ALL_TOPICS, GroupUpdate, TopicAccess
from minibroker.coordinators.groups.consumer.migration import Migration
from minibroker.coordinators.groups.consumer.reconciliation import Rules
from minibroker.coordinators.groups.modern.coordinator import Answer, Client, ModernGroups
from minibroker.coordinators.groups.modern.group import JOINING, GroupRefusedError
from minibroker.coordinators.groups.modern.topics import Partitions, is_subset, partitions_of
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_protocol.records.record import NewRecord

if TYPE_CHECKING:
    from minibroker.security.authorization.authorizer import Authorizer
    from minibroker_protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest

_UNSET: Final = -1
_MIN_INTERVAL_MS: Final = 100
_FIRST_EPOCH: Final = 1
"""The epoch of a group before its first member joins."""


class ConsumerGroups(ModernGroups[ConsumerGroup]):
    """All groups of the consumer protocol.

    Attributes:
        rules: The rules of the emulated Kafka release.
        assignors: The assignors by name, the default one first.
        migration: Moves groups between protocols.
    """

    group_type = ConsumerGroup

    def __init__(
        self,
        core: Core,
        store: GroupStore,
        rebalances: Rebalances,
        authorizer: "Authorizer | None",
        forgotten: Container[str],
        rules: Rules,
    ) -> None:
        super().__init__(core, store, forgotten)
        self._authorizer = authorizer
        self._works_around_clients = core.config.boolean("minibroker.client.workarounds.enable")
        self.rules = rules
        self.assignors = find_assignors(core.config.items("group.consumer.assignors"), since_4_0=rules.since_4_0)
        self.migration = Migration(core, store, rebalances, rules)

    @property
    def is_enabled(self) -> bool:
        """Whether these groups are enabled by the configuration and, in releases that have it, by group.version."""
        features = self.core.features
        is_off = GROUP_VERSION in features.supported and not features.level(GROUP_VERSION)
        return not is_off and "consumer" in self.core.config.items("group.coordinator.rebalance.protocols")

    def heartbeat_interval_ms(self, group_id: str, *, is_short_at_first: bool = False) -> int:
        """Return the time until a member's next heartbeat, in milliseconds.

        The interval is short while a regular expression is being resolved, so that members get their partitions
        soon. Members also hand over partitions in several steps, and each step waits for a heartbeat. If
        `is_short_at_first` is true, the interval is therefore half the time since the group last changed. It is at
        least 100 ms and at most the configured interval.
        """
        interval_ms = self.core.configs.group(group_id).integer("consumer.heartbeat.interval.ms")
        group = self.store.get_consumer(group_id)
        if group is None or not self._works_around_clients:
            return interval_ms
        if group.is_matching:
            return min(_MIN_INTERVAL_MS, interval_ms)
        if not is_short_at_first:
            return interval_ms
        now_ms = int(self.core.clock.monotonic_ms())
        if group.seen_epoch != group.epoch:
            group.seen_epoch, group.seen_ms = group.epoch, now_ms
        return min(interval_ms, max(_MIN_INTERVAL_MS, (now_ms - group.seen_ms) // 2))

    def heartbeat(
        self, request: "ConsumerGroupHeartbeatRequest", client: Client, may_describe: Callable[[str], bool]
    ) -> Answer:
        """Let a member join, or restart its session.

        In a request, a value of None or a rebalance timeout of -1 means no change.

        Args:
            request: The heartbeat.
            client: The member's client.
            may_describe: Returns whether the member has the right to see a topic.

        Raises:
            GroupRefusedError: The member is rejected, or a record could not be written.
        """
        joins = request.member_epoch == JOINING
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        owned = None if request.topic_partitions is None else partitions_of(request.topic_partitions)
        group, tombstones = self.group_for(request.group_id, joins=joins)
        self.check_room(group, request.member_id, request.instance_id)
        member_id = request.member_id or new_member_id()
        update = self.begin(group, may_describe)
        static_member = group.static_member(request.instance_id)
        if joins and static_member is not None:
            self.check_released(static_member, member_id)
            member = update.take_over(static_member, member_id)
        elif joins:
            member = group.member_or_new(member_id)
            if request.instance_id is None and not self.rules.since_4_2:
                self._check_epoch(member, request.member_epoch, owned)
        else:
            member = self.member(group, member_id, request.instance_id)
            self._check_epoch(member, request.member_epoch, owned)
        updated = replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNSET else timeout_ms,
            server_assignor=request.server_assignor or member.server_assignor,
            topics=member.topics if names is None else frozenset(names),
            regex=member.regex if regex is None else regex,
            client_id=client.id,
            client_host=client.host,
            classic=None,
        )
        if updated.regex != member.regex:
            try:
                RegularExpression(updated.regex)
            except RegularExpressionError as error:
                raise GroupRefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None
        moved = update.advance(member, updated, owned)
        self.finish(group, update, moved, tombstones)
        if update.has_new_regex:
            group.is_matching = True
            self.core.call_soon(partial(self._resolve_new_regex, group, may_describe))
        subscribes = names is not None or regex is not None
        is_complete = timeout_ms != _UNSET and subscribes and owned is not None
        has_assignment = joins or is_complete or moved.assigned != member.assigned
        return Answer(moved.member_id, moved.epoch, moved.assigned if has_assignment else None)

    def _resolve_new_regex(self, group: ConsumerGroup, may_describe: Callable[[str], bool]) -> None:
        """Look up the topics of a regular expression for the group's next epoch."""
        if self.store.get_consumer(group.group_id) is not group:
            return
        group.is_matching = False
        update = self.begin(group, may_describe)
        update.resolve_new_regex()
        if not update.changes or not self.store.save_changes(group, update.changes):
            group.topics = update.topics

    def group_for(self, group_id: str, *, joins: bool) -> tuple[ConsumerGroup, list[NewRecord]]:
        """Return the group of a member. A classic group with members is converted if the migration policy allows it."""
        group = self.store.find(group_id)
        if joins and isinstance(group, Group) and not group.is_empty:
            upgraded = self.migration.upgrade(group, self.max_size)
            self.resume(upgraded)
            return upgraded, []
        return super().group_for(group_id, joins=joins)

    def new_group(self, group_id: str, offsets: GroupOffsets | None = None) -> ConsumerGroup:
        """See `ModernGroups`."""
        group = ConsumerGroup(group_id, offsets)
        if self.rules.since_4_3:
            group.epoch = group.assignment_epoch = _FIRST_EPOCH
        return group

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None = None) -> None:
        """Check that the group has room for a member.

        Raises:
            GroupRefusedError: GROUP_MAX_SIZE_REACHED.
        """
        # Since 4.4, a returning static member reuses its place in a full group.
        if not self.rules.since_4_4 or group.static_member(instance_id) is None:
            super().check_room(group, member_id)

    def _check_epoch(self, member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
        """Check the epoch of a heartbeat. The previous epoch is accepted if the member owns no other partitions."""
        owns_no_others = owned is not None and is_subset(owned, member.assigned)
        self.check_epoch(member, epoch, may_be_previous=owns_no_others)

    def begin(self, group: ConsumerGroup, may_describe: Callable[[str], bool] | None = None) -> GroupUpdate:
        """Begin an update of a group.

        If a member causes the update, `may_describe` returns whether that member has the right to see a topic.
        """
        authorizer = self._authorizer
        topic_access: TopicAccess | None = ALL_TOPICS
        if authorizer is not None:
            topic_access = None if may_describe is None else TopicAccess(may_describe, authorizer.changes)
        return GroupUpdate(group, self.core, self.assignors, topic_access, self.rules)

    def finish(
        self, group: ConsumerGroup, update: GroupUpdate, member: ConsumerMember, before: Collection[NewRecord] = ()
    ) -> None:
        """Write an update, and restart the member's session.

        Raises:
            GroupRefusedError: The update could not be written.
        """
        previous = group.members.get(member.member_id)
        self.save(group, update.changes, before)
        group.topics, group.has_new_matches = update.topics, False
        timers = self.restart_session(group, member.member_id)
        # If the member has replaced a static member, cancel the timers of the replaced member.
        if len(group.timers) > len(group.members):
            for member_id in group.timers.keys() - group.members.keys():
                self.end_session(group, member_id)
        if previous is not None and previous.to_current() == member.to_current():
            return
        if member.is_revoking and not member.is_classic:
            timers.start_revocation(member.rebalance_timeout_ms)
        else:
            timers.end_revocation()

    def _make_absent(self, member: ConsumerMember) -> ConsumerMember:
        return member.as_absent(has_epochs=self.rules.since_4_3)

    def _fence(self, group: ConsumerGroup, member_id: str) -> ErrorCode:
        return self.fence(group, [member_id])

    def fence(self, group: ConsumerGroup, removed: Collection[str]) -> ErrorCode:
        """Remove members. If only classic members are left, convert the group if the migration policy allows it."""
        may_downgrade = self.migration.may_downgrade(group, removed)
        if may_downgrade and (downgrade_code := self.migration.downgrade(group, removed)) is not None:
            if not downgrade_code:
                self.forget(group, is_gone=False)
            return downgrade_code
        update = self.begin(group)
        update.remove_members(removed)
        if not (code := self.store.save_changes(group, update.changes)):
            group.topics = update.topics
            for member_id in removed:
                self.end_session(group, member_id)
        return code

    def replace_last(
        self, group: ConsumerGroup, update: GroupUpdate, replaced: ConsumerMember, member: ConsumerMember
    ) -> bool:
        """Replace a static member by a classic member, and return whether the group was converted to a classic group.

        The group is converted if the replaced member was the last member of the consumer protocol and the policy allows
        the conversion. Kafka 4 does the same (`validateOnlineDowngradeWithReplacedMember`), but 3.9.1 does not convert
        the group.

        Raises:
            GroupRefusedError: The change could not be written.
        """
        if not self.migration.may_downgrade(group, [replaced.member_id], replaced=True):
            return False
        if code := self.migration.downgrade_and_replace(group, update, replaced.member_id, member):
            raise GroupRefusedError(code)
        if code is not None:
            self.forget(group, is_gone=False)
        return code is not None

    def _session_timeout_ms(self, group: ConsumerGroup, member_id: str) -> int:
        member = group.members[member_id]
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.core.configs.group(group.group_id).integer("consumer.session.timeout.ms")


def new_member_id() -> str:
    """Return a new member id."""
    return uuid_text(new_uuid())
