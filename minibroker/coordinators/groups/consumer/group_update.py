"""An update to a consumer group: the records to write when a member joins, changes or sends a heartbeat.

This is the middle part of Kafka's `GroupMetadataManager.consumerGroupHeartbeat`. Kafka handles a JoinGroup from a
member of the classic protocol in the same way.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.routing.slices import Slices, Steps, Work
from minibroker.cluster.topics import Topics
from minibroker.config.names.regular_expressions import RegularExpression, RegularExpressionError
from minibroker.coordinators.groups.assignors import Assignor
from minibroker.coordinators.groups.assignors.range import GroupSpec, member_specs
from minibroker.coordinators.groups.consumer.group import (
    NO_EPOCHS,
    RECORDS,
    ConsumerGroup,
    ConsumerMember,
    subscribed_topics,
)
from minibroker.coordinators.groups.consumer.reconciliation import Rules, TargetState, reconcile
from minibroker.coordinators.groups.modern.group import JOINING
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, TopicMetadata, find_topics, hash_topics
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker_protocol.coordinator_records.consumer_groups import ConsumerGroupPartitionMetadataKey

_RIGHTS_BY_SLICE: Final = 50
_logger = logging.getLogger(__name__)


class TopicAccess(NamedTuple):
    """The topics that the regular expressions of a group can match, according to a client's access rights.

    Attributes:
        allows: Returns whether the client has the right to see a topic.
        rules: A number that changes whenever access rights may have changed.
    """

    allows: Callable[[str], bool]
    rules: int = 0


def _match_all(_name: str) -> bool:
    return True


ALL_TOPICS: Final = TopicAccess(_match_all)


def resolve(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    topics: Topics,
    topic_access: TopicAccess | None,
    slices: Slices,
) -> None:
    """Store the topics matched by the members' regular expressions, or begin to match the expressions in steps.

    If `topic_access` is None, there is no client whose rights could be checked. In that case, nothing
    is matched, and expressions keep their topics.
    """
    regexes = {member.regex for member in members if member.regex}
    if not regexes:
        group.set_matched_topics({}, None)
        return
    known, matched_among = group.regexes, group.matched_among
    if topic_access is not None:
        matched_among = topics.names, topic_access.rules
        if matched_among != group.matched_among:
            known = {}
    missing = regexes - known.keys() if topic_access is not None else set[str]()
    if not missing:
        if known.keys() != regexes:
            group.set_matched_topics({regex: known[regex] for regex in regexes if regex in known}, matched_among)
        return
    if group.is_matching:
        return
    assert topic_access is not None
    assert matched_among is not None
    matched = slices.begin(_match(group.group_id, sorted(missing), matched_among[0], topic_access.allows))
    if isinstance(matched, Work):
        group.is_matching = True
        store_matches = partial(_store_matches, group, known, matched_among)
        matched.then(store_matches, partial(_log_failure, group))  # pyright: ignore[reportUnknownMemberType] - the result has any type
    else:
        kept = {regex: known[regex] for regex in regexes if regex in known}
        group.set_matched_topics({**kept, **matched}, matched_among)


def _store_matches(
    group: ConsumerGroup,
    known: Mapping[str, frozenset[str]],
    matched_among: tuple[Collection[str], int],
    matched: Mapping[str, frozenset[str]],
) -> None:
    """Store the matched topics. The next heartbeat checks whether they are still up to date."""
    group.is_matching = False
    group.has_new_matches |= any(topics != group.regexes.get(regex, frozenset()) for regex, topics in matched.items())
    group.set_matched_topics({**known, **matched}, matched_among)


def _log_failure(group: ConsumerGroup, error: Exception) -> None:
    group.is_matching = False
    _logger.error("The regular expressions of group %s could not be matched", group.group_id, exc_info=error)


def _match(
    group_id: str, regexes: Iterable[str], names: Collection[str], allows: Callable[[str], bool]
) -> Steps[dict[str, frozenset[str]]]:
    """Match regular expressions. An unusable expression matches nothing, as in Kafka."""
    topics_by_regex: dict[str, frozenset[str]] = {}
    for regex in regexes:
        try:
            expression = RegularExpression(regex)
            matching = yield from expression.matching(names)
        except RegularExpressionError as error:
            _logger.warning("A regular expression of group %s is ignored: %s", group_id, error)
            matching = []
        allowed: list[str] = []
        for count, name in enumerate(matching, 1):
            if allows(name):
                allowed.append(name)
            if allows is not _match_all and count % _RIGHTS_BY_SLICE == 0:
                yield
        topics_by_regex[regex] = frozenset(allowed)
        if len(names) > _RIGHTS_BY_SLICE:
            yield
    return topics_by_regex


_NEVER: Final = 0


class GroupUpdate:
    """The changes made by one update to a group. They take effect after all of them are written.

    Attributes:
        changes: The records so far.
        downgrades: Whether this update converts the group to a classic group, whose members make the assignment.
        epoch: The group epoch after the update.
        topics: The subscribed topics after the update.
        metadata_hash: The hash of these topics.
        has_new_regex: Whether the member has a new regular expression that has not been matched yet.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        core: Core,
        assignors: Mapping[str, Assignor],
        topic_access: TopicAccess | None,
        rules: Rules,
    ) -> None:
        self._group = group
        self._core = core
        self._topics = core.topics
        self._topic_access = topic_access
        self._assignors = assignors
        self._rules = rules
        self.changes: list[Change] = []
        self.downgrades = False
        self.epoch = group.epoch
        self.topics: Mapping[str, TopicMetadata] = group.topics
        self.metadata_hash = group.metadata_hash if rules.since_4_1 else 0
        self.has_new_regex = False
        self._target: tuple[int, Partitions] | None = None

    def take_over(self, before: ConsumerMember, member_id: str) -> ConsumerMember:
        """Return a static member under its new member id. The member keeps its assignment.

        The records of the replacement are added to the changes.
        """
        epochs = before.epochs if self._rules.since_4_3 else NO_EPOCHS
        member = replace(before, member_id=member_id, epoch=JOINING, previous_epoch=JOINING, epochs=epochs)
        target = self._group.target.get(before.member_id, NOTHING)
        self.changes += RECORDS.replaced_member(self._group.group_id, before.member_id, member, target)
        return member

    def advance(self, member: ConsumerMember, updated: ConsumerMember, owned: Partitions | None) -> ConsumerMember:
        """Return the member after the update.

        Args:
            member: The member before the update.
            updated: The member with the values in its heartbeat.
            owned: The partitions that the member reports as owned, or None.

        Raises:
            GroupRefusedError: FENCED_MEMBER_EPOCH if the state of the member is unknown.
        """
        group = self._group
        bumps_epoch = group.epoch == _NEVER or group.has_new_matches
        has_new_topics = (updated.topics, updated.regex) != (member.topics, member.regex)
        # Topics that match a new expression are added in the group's next epoch, after `resolve_new_regex` finds them.
        is_new = updated.regex != member.regex and updated.regex not in group.regexes
        self.has_new_regex = bool(updated.regex) and is_new
        if updated != member:
            self.changes.append(RECORDS.member_metadata(group.group_id, updated))
            is_resolved = updated.topics != member.topics if self.has_new_regex else has_new_topics
            bumps_epoch |= is_resolved or self._has_new_assignor(member, updated)
        if bumps_epoch or self._needs_check():
            members = self._list_updated_members(replace(updated, regex="") if self.has_new_regex else updated)
            self._update_topics(members.values(), changed=bumps_epoch)
            if self.epoch > group.assignment_epoch and self._may_assign():
                self._assign(members, updated)
        if self.downgrades and self.epoch > group.assignment_epoch:
            return updated
        target_epoch, target = self._target or (group.assignment_epoch, group.target_of(updated))
        if updated.is_reconciled(target_epoch) and not (has_new_topics and self._rules.since_4_2):
            return updated
        topics = map(self._topics.get, group.topics_of(updated))
        subscribed = frozenset(topic.id for topic in topics if topic is not None)
        goal = TargetState(target_epoch, target, subscribed, has_new_topics, group.is_free)
        moved = reconcile(updated, goal, owned, self._rules)
        if moved != updated:
            self.changes.append(RECORDS.current_assignment(group.group_id, moved))
        return moved

    def resolve_new_regex(self) -> None:
        """Look up the topics of new regular expressions. If they match any, raise the group epoch."""
        group, members = self._group, self._group.members.values()
        old_keys = group.regexes.keys()
        resolve(group, members, self._topics, self._topic_access, self._core.slices)
        self._update_topics(members, changed=any(group.regexes[regex] for regex in group.regexes.keys() - old_keys))

    def _may_assign(self) -> bool:
        """Return whether the assignment interval is over (`canComputeNextTargetAssignment`)."""
        if self.downgrades:
            return False
        group = self._group
        interval_ms = self._core.configs.group(group.group_id).integer("consumer.assignment.interval.ms")
        return not self._rules.since_4_3 or group.may_assign_again(interval_ms, self._core.clock.now_ms())

    def _has_new_assignor(self, member: ConsumerMember, updated: ConsumerMember) -> bool:
        """Return whether most members now prefer another assignor. Kafka then makes a new assignment, since 4.4."""
        if not self._rules.since_4_4 or updated.server_assignor == member.server_assignor:
            return False
        return self._assignor_of(self._group.members) != self._assignor_of(self._list_updated_members(updated))

    def _assignor_of(self, members: Mapping[str, ConsumerMember]) -> str:
        return self._group.assignor(members.values(), next(iter(self._assignors)))

    def _list_updated_members(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """Return the group's members after the update, without any member that `updated` replaces."""
        members = {member.member_id: member for member in self._group.members.values() if not _is_same(member, updated)}
        members[updated.member_id] = updated
        return members

    def _needs_check(self) -> bool:
        """Return whether all members must be examined. On most heartbeats, nothing has changed."""
        group, topic_names = self._group, self._group.named_topics
        has_old_record = group.has_topics_record and self._rules.since_4_1
        if topic_names is None or has_old_record or group.epoch > group.assignment_epoch:
            return True
        return self._find_topics(topic_names) is not group.topics

    def _find_topics(self, names: AbstractSet[str]) -> Mapping[str, TopicMetadata]:
        return find_topics(self._topics, names, self._group.topics)

    def remove_members(self, removed: Collection[str]) -> None:
        """Remove members, and raise the group epoch."""
        group = self._group
        for member_id in removed:
            self.changes += RECORDS.member_tombstones(group.group_id, member_id)
        remaining = [member for member in group.members.values() if member.member_id not in removed]
        self._update_topics(remaining, changed=True)
        if not remaining and self._rules.since_4_4:
            self.changes.append(RECORDS.assignment_epoch(group.group_id, self.epoch))

    def _update_topics(self, members: Iterable[ConsumerMember], *, changed: bool) -> None:
        """Look up the subscribed topics. Raise the group epoch if they have changed, or if `changed` is true."""
        group, all_members = self._group, list(members)
        resolve(group, all_members, self._topics, self._topic_access, self._core.slices)
        self.topics = self._find_topics(group.topics_of_all(all_members))
        if self._rules.since_4_1:
            if self.topics is not group.topics or group.has_topics_record:
                self.metadata_hash = hash_topics(self.topics)
            changed |= self.metadata_hash != group.metadata_hash
        elif self.topics is not group.topics:
            self.changes.append(subscribed_topics(group.group_id, self.topics))
            changed = True
        if changed:
            self.epoch += 1
            self.changes.append(RECORDS.group_epoch(group.group_id, self.epoch, self.metadata_hash))
        if group.has_topics_record and self._rules.since_4_1:
            self.changes.append(Change(ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None))

    def _assign(self, members: Mapping[str, ConsumerMember], updated: ConsumerMember) -> None:
        """Make the target assignment of the new epoch (Kafka's `TargetAssignmentBuilder`)."""
        group = self._group
        current_target = dict(group.target)
        replaced = group.static_member(updated.instance_id)
        if replaced is not None and replaced.member_id in current_target:
            current_target[updated.member_id] = current_target[replaced.member_id]
        specs, is_homogeneous = member_specs(members, group.topics_of, self.topics, current_target)
        counts = {topic.topic_id: topic.partitions for topic in self.topics.values()}
        assigned = self._assignors[self._assignor_of(members)](GroupSpec(specs, counts, is_homogeneous))
        new_target = {member_id: assigned.get(member_id, NOTHING) for member_id in hash_order(specs, string_hash)}
        old_target = current_target if self._rules.since_4_4 else group.target
        made_ms = self._core.clock.now_ms() if self._rules.since_4_3 else 0
        self.changes += RECORDS.new_target(group.group_id, new_target, old_target, self.epoch, made_ms)
        self._target = self.epoch, assigned.get(updated.member_id, NOTHING)


def _is_same(member: ConsumerMember, updated: ConsumerMember) -> bool:
    """Return whether two members have the same id, or one of them replaces the other."""
    static = updated.instance_id is not None and member.instance_id == updated.instance_id
    return static or member.member_id == updated.member_id
