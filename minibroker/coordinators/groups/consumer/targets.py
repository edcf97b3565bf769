"""Target assignments of consumer groups (Kafka's `TargetAssignmentBuilder`)."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from minibroker.coordinators.groups.assignors import Assignor, GroupSpec
from minibroker.coordinators.groups.assignors.pace import Pace
from minibroker.coordinators.groups.assignors.spec import MemberSpec
from minibroker.coordinators.groups.consumer import changes as records
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.consumer.member import ConsumerMember
from minibroker.coordinators.groups.consumer.rules import Rules
from minibroker.coordinators.groups.modern.awaited_targets import AwaitedTargets
from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker.support.slices import Slices, Steps, Work
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import NewRecord


class Target(NamedTuple):
    """A target assignment.

    Attributes:
        members: the members that it was made for, by member id, in the order of Kafka's records.
        assigned: partitions by member id; a member that is missing reads nothing.
    """

    members: Mapping[str, ConsumerMember]
    assigned: Mapping[str, Partitions]


class Wish(NamedTuple):
    """The input of a target assignment.

    Attributes:
        members: by member id.
        subscribed: the topics of each member, by member id.
        topics: those that exist, by name.
        present: the present target of each member, by member id.
        assignor: makes the assignment.
    """

    members: Mapping[str, ConsumerMember]
    subscribed: Mapping[str, frozenset[str]]
    topics: Mapping[str, TopicMetadata]
    present: Mapping[str, Partitions]
    assignor: Assignor

    def make(self) -> Steps[Target]:
        """Make the target; yields about every millisecond."""
        pace = Pace()
        ids: dict[frozenset[str], list[bytes]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in self.members.items():
            names = self.subscribed[member_id]
            listed = ids.get(names)
            if listed is None:
                listed = ids[names] = [self.topics[name].topic_id for name in sorted(names) if name in self.topics]
                if pace.is_due(len(names)):
                    yield
            specs[member_id] = MemberSpec(member.instance_id, listed, self.present.get(member_id, NOTHING))
            if pace.is_due(2):
                yield
        # As in Kafka, topics that do not exist count: a member that subscribes to them alone differs from the others.
        homogeneous = len(ids) == 1
        counts = {topic.topic_id: topic.partitions for topic in self.topics.values()}
        assigned = yield from self.assignor(GroupSpec(specs, counts, homogeneous))
        ordered = hash_order(specs, string_hash)
        return Target({member_id: self.members[member_id] for member_id in ordered}, assigned)


class Targets(AwaitedTargets[ConsumerGroup, Target]):
    """Makes the targets of all consumer groups."""

    def __init__(self, slices: Slices, store: GroupStore, rules: Rules) -> None:
        super().__init__(slices, store)
        self._rules = rules
        self.now_ms = store.now_ms

    def assignment_epoch(self, group: ConsumerGroup, epoch: int) -> Change:
        """The record that a target for this epoch has been made now."""
        return records.assignment_epoch(group.group_id, epoch, self.now_ms() if self._rules.since_4_3 else 0)

    def begin(self, wish: Wish) -> Target | Work[Target]:
        """Begin to make a target: it, or the work that goes on."""
        return self.slices.begin(wish.make())

    def _write(self, group: ConsumerGroup, epoch: int, target: Target) -> Steps[ErrorCode]:
        """Write a target. Its group may have gone on to another epoch, for which the next heartbeat begins another one.

        Later changes count: a member that has left reads nothing, and no member is given a topic that it does not
        subscribe to any more.
        """
        now_ms = self._store.now_ms()
        ready: list[tuple[ConsumerMember, Partitions, NewRecord | None]] = []
        for member_id, before in target.members.items():
            member = group.successor(before)
            if member is not None:
                partitions = still_subscribed(group, member, before, target.assigned.get(member_id, NOTHING))
                record = None
                if group.target.get(member.member_id) != partitions:
                    record = records.target_assignment(group.group_id, member.member_id, partitions).encode(now_ms)
                ready.append((member, partitions, record))
                yield
        if not self._is_due(group, epoch):
            return ErrorCode.NONE
        changed: dict[str, Partitions] = {}
        written: list[NewRecord] = []
        for before, partitions, record in ready:
            member = group.successor(before)
            if member is None or record is None or not has_same_subscription(member, before):
                continue
            is_same = member.member_id == before.member_id
            change = records.target_assignment(group.group_id, member.member_id, partitions)
            written.append(record if is_same else change.encode(now_ms))
            changed[member.member_id] = partitions
        return self._store.save_target(group, changed, written, self.assignment_epoch(group, epoch))


def has_same_subscription(member: ConsumerMember, before: ConsumerMember) -> bool:
    """Does a member want the topics that it wanted before?"""
    return (member.topics, member.regex) == (before.topics, before.regex)


def still_subscribed(
    group: ConsumerGroup, member: ConsumerMember, before: ConsumerMember, partitions: Partitions
) -> Partitions:
    """The partitions of topics that a member still subscribes to; `before` is the member for whom they were chosen."""
    if has_same_subscription(member, before):
        return partitions
    names = group.topics_of(member)
    ids: Collection[bytes] = {topic.topic_id for name, topic in group.topics.items() if name in names}
    return {topic: indexes for topic, indexes in partitions.items() if topic in ids}
