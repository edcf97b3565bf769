"""An update of a consumer group: a member joins, changes or sends a heartbeat, and the records that follow.

Kafka's `GroupMetadataManager.consumerGroupHeartbeat` in the middle, and its way with a JoinGroup of a member of the
classic protocol, which is the same.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from minibroker.cluster.core import Core
from minibroker.coordinators.groups.assignors import Assignor
from minibroker.coordinators.groups.assignors.range import GroupSpec, MemberSpec
from minibroker.coordinators.groups.consumer.group import (
    NO_EPOCHS,
    RECORDS,
    ConsumerGroup,
    ConsumerMember,
    subscribed_topics,
)
from minibroker.coordinators.groups.consumer.reconciliation import Aim, Rules, reconcile
from minibroker.coordinators.groups.consumer.subscriptions import MayMatch, resolve
from minibroker.coordinators.groups.modern.group import JOINING
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, TopicMetadata, hash_of, known_topics
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker_protocol.coordinator_records.consumer_groups import ConsumerGroupPartitionMetadataKey

_NEVER: Final = 0


class GroupUpdate:
    """The changes of one update of a group; none counts until all are written.

    Attributes:
        changes: the records so far.
        downgrades: whether the group becomes a classic one with this update, and is assigned by its members then.
        epoch: the group's, afterwards.
        topics: those that are subscribed to, afterwards.
        metadata_hash: stands for them.
        has_new_regex: whether the member has brought a regular expression whose topics nobody has looked up yet.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        core: Core,
        assignors: Mapping[str, Assignor],
        may_match: MayMatch | None,
        rules: Rules,
    ) -> None:
        self._group = group
        self._core = core
        self._topics = core.topics
        self._may_match = may_match
        self._assignors = assignors
        self._rules = rules
        self.changes: list[Change] = []
        self.downgrades = False
        self.epoch = group.epoch
        self.topics: Mapping[str, TopicMetadata] = group.topics
        self.metadata_hash = group.metadata_hash if rules.since_4_1 else 0
        self.has_new_regex = False
        self._target: tuple[int, Partitions] | None = None

    # Who it is

    def take_over(self, before: ConsumerMember, member_id: str) -> ConsumerMember:
        """Let a static member that has come back under another member id keep its assignment."""
        epochs = before.epochs if self._rules.since_4_3 else NO_EPOCHS
        member = replace(before, member_id=member_id, epoch=JOINING, previous_epoch=JOINING, epochs=epochs)
        target = self._group.target.get(before.member_id, NOTHING)
        self.changes += RECORDS.replaced_member(self._group.group_id, before.member_id, member, target)
        return member

    # What it wants

    def advance(self, member: ConsumerMember, updated: ConsumerMember, owned: Partitions | None) -> ConsumerMember:
        """The member after the update; `updated` is what it has said of itself now. UnknownStateError."""
        group = self._group
        is_news = group.epoch == _NEVER or group.has_new_meanings
        has_new_topics = (updated.topics, updated.regex) != (member.topics, member.regex)
        # The topics of a new expression come with the group's next epoch, once `resolve_new_regex` has looked them up.
        is_new = updated.regex != member.regex and updated.regex not in group.regexes
        self.has_new_regex = bool(updated.regex) and is_new
        if updated != member:
            self.changes.append(RECORDS.member_metadata(group.group_id, updated))
            is_resolved = updated.topics != member.topics if self.has_new_regex else has_new_topics
            is_news |= is_resolved or self._changes_assignor(member, updated)
        if is_news or self._may_be_news():
            members = self._members_with(replace(updated, regex="") if self.has_new_regex else updated)
            self._look_at_topics(members.values(), changed=is_news)
            if self.epoch > group.assignment_epoch and self._may_assign():
                self._assign(members, updated)
        if self.downgrades and self.epoch > group.assignment_epoch:
            return updated
        target_epoch, target = self._target or (group.assignment_epoch, group.target_of(updated))
        if updated.is_reconciled(target_epoch) and not (has_new_topics and self._rules.since_4_2):
            return updated
        listed = map(self._topics.get, group.topics_of(updated))
        subscribed = frozenset(topic.id for topic in listed if topic is not None)
        aim = Aim(target_epoch, target, subscribed, has_new_topics, group.is_free)
        moved = reconcile(updated, aim, owned, self._rules)
        if moved != updated:
            self.changes.append(RECORDS.current_assignment(group.group_id, moved))
        return moved

    def resolve_new_regex(self) -> None:
        """Look up the topics of new regular expressions; the group's epoch goes up if they mean any."""
        group, members = self._group, self._group.members.values()
        known = group.regexes.keys()
        resolve(group, members, self._topics, self._may_match, self._core.slices)
        self._look_at_topics(members, changed=any(group.regexes[regex] for regex in group.regexes.keys() - known))

    def _may_assign(self) -> bool:
        """Return whether the last assignment is old enough (`canComputeNextTargetAssignment`)."""
        if self.downgrades:
            return False
        group = self._group
        interval_ms = self._core.configs.group(group.group_id).assignment_interval_ms
        return not self._rules.since_4_3 or group.may_assign_again(interval_ms, self._core.clock.now_ms())

    def _changes_assignor(self, member: ConsumerMember, updated: ConsumerMember) -> bool:
        """Do most members wish for another assignor now? Kafka assigns again since 4.4."""
        if not self._rules.since_4_4 or updated.server_assignor == member.server_assignor:
            return False
        return self._assignor_of(self._group.members) != self._assignor_of(self._members_with(updated))

    def _assignor_of(self, members: Mapping[str, ConsumerMember]) -> str:
        return self._group.assignor(members.values(), next(iter(self._assignors)))

    def _members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """Return the group's members after the update, without the one that it replaces."""
        members = {each.member_id: each for each in self._group.members.values() if not _is_same(each, updated)}
        members[updated.member_id] = updated
        return members

    def _may_be_news(self) -> bool:
        """Is it worth a look at all members? Most heartbeats find everything as it was."""
        named = self._group.named_topics
        if named is None or self._group.epoch > self._group.assignment_epoch:
            return True
        if self._group.has_topics_record and self._rules.since_4_1:
            return True
        return self._there_are(named) is not self._group.topics

    def _there_are(self, names: AbstractSet[str]) -> Mapping[str, TopicMetadata]:
        return known_topics(self._topics, names, self._group.topics)

    def without(self, gone: Collection[str]) -> None:
        """Members go; the group is one epoch further."""
        group = self._group
        for member_id in gone:
            self.changes += RECORDS.without_member(group.group_id, member_id)
        others = [each for each in group.members.values() if each.member_id not in gone]
        self._look_at_topics(others, changed=True)
        if not others and self._rules.since_4_4:
            self.changes.append(RECORDS.assignment_epoch(group.group_id, self.epoch))

    def _look_at_topics(self, members: Iterable[ConsumerMember], *, changed: bool) -> None:
        """Note what is subscribed to, as it is now; the group's epoch goes up if that is news, or `changed`."""
        group, listed = self._group, list(members)
        resolve(group, listed, self._topics, self._may_match, self._core.slices)
        self.topics = self._there_are(group.topics_of_all(listed))
        if self._rules.since_4_1:
            if self.topics is not group.topics or group.has_topics_record:
                self.metadata_hash = hash_of(self.topics)
            changed |= self.metadata_hash != group.metadata_hash
        elif self.topics is not group.topics:
            self.changes.append(subscribed_topics(group.group_id, self.topics))
            changed = True
        if changed:
            self._come_to_next_epoch()
        if group.has_topics_record and self._rules.since_4_1:
            self.changes.append(Change(ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None))

    def _come_to_next_epoch(self) -> None:
        self.epoch += 1
        self.changes.append(RECORDS.group_epoch(self._group.group_id, self.epoch, self.metadata_hash))

    def _assign(self, members: Mapping[str, ConsumerMember], updated: ConsumerMember) -> None:
        """Make the assignment of the new epoch (Kafka's `TargetAssignmentBuilder`)."""
        group = self._group
        present = dict(group.target)
        replaced = group.static_member(updated.instance_id)
        if replaced is not None and replaced.member_id in present:
            present[updated.member_id] = present[replaced.member_id]
        ids: dict[frozenset[str], list[bytes]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in members.items():
            names = group.topics_of(member)
            listed = ids.get(names)
            if listed is None:
                listed = [self.topics[name].topic_id for name in sorted(names) if name in self.topics]
                ids[names] = listed
            specs[member_id] = MemberSpec(member.instance_id, listed, present.get(member_id, NOTHING))
        counts = {topic.topic_id: topic.partitions for topic in self.topics.values()}
        # As in Kafka, topics that do not exist count: a member that subscribes to them alone differs from the others.
        assigned = self._assignors[self._assignor_of(members)](GroupSpec(specs, counts, homogeneous=len(ids) == 1))
        made = {member_id: assigned.get(member_id, NOTHING) for member_id in hash_order(specs, string_hash)}
        before = present if self._rules.since_4_4 else group.target
        made_ms = self._core.clock.now_ms() if self._rules.since_4_3 else 0
        self.changes += RECORDS.new_target(group.group_id, made, before, self.epoch, made_ms)
        self._target = self.epoch, assigned.get(updated.member_id, NOTHING)


def _is_same(member: ConsumerMember, updated: ConsumerMember) -> bool:
    """Return whether this is the member, or the one that it replaces."""
    static = updated.instance_id is not None and member.instance_id == updated.instance_id
    return static or member.member_id == updated.member_id
