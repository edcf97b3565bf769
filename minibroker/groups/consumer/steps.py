"""One step of a group: someone joins, changes or is heard of, and what follows for the group and for that member.

Kafka's `GroupMetadataManager.consumerGroupHeartbeat` in the middle, and its way with a JoinGroup of a member of the
classic protocol, which is the same.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from minibroker.groups.consumer import changes as records
from minibroker.groups.consumer.assignors import Assignor, GroupSpec
from minibroker.groups.consumer.assignors.java_order import hash_order, string_hash
from minibroker.groups.consumer.assignors.spec import MemberSpec
from minibroker.groups.consumer.changes import Change
from minibroker.groups.consumer.group import ConsumerGroup, TopicMetadata
from minibroker.groups.consumer.member import JOINING, ConsumerMember
from minibroker.groups.consumer.partitions import NOTHING, Partitions
from minibroker.groups.consumer.reconciliation import reconcile
from minibroker.metadata.topics import Topics
from minibroker.regular_expressions.expression import RegularExpression, RegularExpressionError

_NEVER: Final = 0


class MayMatch(NamedTuple):
    """Which topics the regular expressions of a group may mean, as the rights of a client have it.

    Attributes:
        allows: may the client know of a topic?
        rules: another number whenever rights may have changed.
    """

    allows: Callable[[str], bool]
    rules: int = 0


def _anything(_name: str) -> bool:
    return True


EVERYTHING: Final = MayMatch(_anything)


class Step:
    """What changes in a group; nothing has until its changes are written.

    Attributes:
        changes: the records so far.
        epoch: the group's, afterwards.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        topics: Topics,
        assignors: Mapping[str, Assignor],
        may_match: MayMatch | None,
    ) -> None:
        self._group = group
        self._topics = topics
        self._may_match = may_match
        self._assignors = assignors
        self.changes: list[Change] = []
        self.epoch = group.epoch
        self._found: dict[str, TopicMetadata] = {}

    # Who it is

    def take_over(self, before: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back under another member id; what it had is its own."""
        member = replace(before, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
        group_id = self._group.group_id
        self.changes += records.without_member(group_id, before.member_id)
        self.changes.append(records.member_metadata(group_id, member))
        self.changes.append(
            records.target_assignment(group_id, member_id, self._group.target.get(before.member_id, NOTHING))
        )
        self.changes.append(records.current_assignment(group_id, member))
        return member

    # What it wants

    def bring_on(self, member: ConsumerMember, updated: ConsumerMember, owned: Partitions | None) -> ConsumerMember:
        """The member after the step; `updated` is what it has said of itself now. UnknownStateError."""
        group = self._group
        subscription_changed = group.epoch == _NEVER
        if updated != member:
            self.changes.append(records.member_metadata(group.group_id, updated))
            subscription_changed |= updated.topics != member.topics or updated.regex != member.regex
        if subscription_changed or self._may_be_news():
            self._look_at_topics(self._members_with(updated).values(), changed=subscription_changed)
        if self.epoch > group.assignment_epoch:
            target_epoch, target = self.epoch, self._assign(self._members_with(updated), updated)
        else:
            target_epoch, target = group.assignment_epoch, group.target_of(updated)
        if updated.is_reconciled(target_epoch):
            return updated
        moved = reconcile(updated, target_epoch, target, owned, group.is_free)
        if moved != updated:
            self.changes.append(records.current_assignment(group.group_id, moved))
        return moved

    def _members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """The group's members, this one as it is now, and not the one whose place it takes."""
        members = {each.member_id: each for each in self._group.members.values() if not _is_same(each, updated)}
        members[updated.member_id] = updated
        return members

    def _may_be_news(self) -> bool:
        """Is it worth a look at all members? Most heartbeats find everything as it was."""
        named = self._group.named_topics
        if named is None or self._group.epoch > self._group.assignment_epoch:
            return True
        return self._there_are(named) != self._group.topics

    def _there_are(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Those of some topics that exist."""
        found: dict[str, TopicMetadata] = {}
        for name in sorted(names):
            topic = self._topics.get(name)
            if topic is not None:
                found[name] = TopicMetadata(topic.id, len(topic.partitions))
        return found

    def without(self, gone: Collection[str]) -> None:
        """Members go; the group is one epoch further."""
        group = self._group
        for member_id in gone:
            self.changes += records.without_member(group.group_id, member_id)
        self._look_at_topics([each for each in group.members.values() if each.member_id not in gone], changed=True)

    def _look_at_topics(self, members: Iterable[ConsumerMember], *, changed: bool) -> None:
        """Note what is subscribed to, as it is now; the group's epoch goes up if that is news, or `changed`."""
        group, listed = self._group, list(members)
        resolve(group, listed, self._topics, self._may_match)
        found = self._there_are(set[str]().union(*map(group.topics_of, listed)))
        if found != group.topics:
            self.changes.append(records.subscribed_topics(group.group_id, found))
            changed = True
        self._found = found
        if changed:
            self.epoch += 1
            self.changes.append(records.group_epoch(group.group_id, self.epoch))

    def _assign(self, members: Mapping[str, ConsumerMember], updated: ConsumerMember) -> Partitions:
        """Make an assignment for the new epoch; what it has for `updated`."""
        group, found = self._group, self._found
        specs = {
            member_id: MemberSpec(
                member.instance_id,
                [found[name].topic_id for name in sorted(group.topics_of(member)) if name in found],
                group.target_of(member) if member_id == updated.member_id else group.target.get(member_id, NOTHING),
            )
            for member_id, member in members.items()
        }
        # Topics that do not exist count, too, as in Kafka: whoever wants them alone is not like the others.
        homogeneous = len({group.topics_of(member) for member in members.values()}) == 1
        counts = {topic.topic_id: topic.partitions for topic in found.values()}
        name = group.assignor(members.values(), next(iter(self._assignors)))
        assigned = self._assignors[name](GroupSpec(specs, counts, homogeneous))
        for member_id in hash_order(specs, string_hash):  # the order of Kafka's records
            partitions = assigned.get(member_id, NOTHING)
            if group.target.get(member_id) != partitions:
                self.changes.append(records.target_assignment(group.group_id, member_id, partitions))
        self.changes.append(records.assignment_epoch(group.group_id, self.epoch))
        return assigned.get(updated.member_id, NOTHING)


def _is_same(member: ConsumerMember, updated: ConsumerMember) -> bool:
    """Is it the member, or the one whose place it takes?"""
    static = updated.instance_id is not None and member.instance_id == updated.instance_id
    return static or member.member_id == updated.member_id


def resolve(
    group: ConsumerGroup, members: Iterable[ConsumerMember], topics: Topics, may_match: MayMatch | None
) -> None:
    """Note which topics the members' regular expressions mean.

    Without `may_match` nobody is there whose rights decide what is news to them: they mean what they have meant.
    """
    wanted = {member.regex for member in members if member.regex}
    if not wanted:
        group.regexes, group.regexes_of = {}, None
        return
    if may_match is None:
        group.regexes = {regex: meant for regex, meant in group.regexes.items() if regex in wanted}
        return
    names = frozenset(topic.name for topic in topics)
    known = group.regexes if (names, may_match.rules) == group.regexes_of else {}
    group.regexes = {
        regex: known[regex] if regex in known else frozenset(filter(may_match.allows, _matching(regex, names)))
        for regex in sorted(wanted)
    }
    group.regexes_of = names, may_match.rules


def _matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    try:
        expression = RegularExpression(regex)
    except RegularExpressionError:  # a Kafka has taken it, and left it to us in its log
        return frozenset()
    return frozenset(name for name in names if expression.matches(name))
