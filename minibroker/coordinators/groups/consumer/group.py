"""A consumer group: epochs, members, target and current assignments (Kafka's `ConsumerGroup`).

A group changes by its records alone (`apply`): those that are written now, and those that are read after a start.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from minibroker.cluster.replicas import PartitionRacks
from minibroker.coordinators.groups.consumer.member import ConsumerMember
from minibroker.coordinators.groups.modern.commit_versions import FIRST_TRANSACTIONAL_WITH_EPOCHS, FIRST_WITH_EPOCHS
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions, partitions_of
from minibroker.coordinators.groups.modern.sessions import MemberTimers
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker_protocol.coordinator_records import consumer_groups as records
from minibroker_protocol.error_codes import ErrorCode

PROTOCOL_TYPE: Final = "consumer"
_GONE: Final = -1


class ConsumerGroupState(Enum):
    """Where a group stands; the values are the names that Kafka shows."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """One group.

    Attributes:
        epoch: rises when members come or go, and when the partitions that they read change.
        assignment_epoch: the epoch that `target` was made for.
        seen_epoch, seen_ms: the epoch at the last heartbeat with short intervals, and when it was seen first.
        assigned_ms: when that was, in ms since 1970; 0 if another target may follow at once.
        metadata_hash: stands for the topics that the members subscribe to; 0 before Kafka 4.1.
        has_topics_record: whether the log has a record of these topics, as before Kafka 4.1.
        members: by member id.
        static_members: member ids by instance id.
        target: what each member is to read in the end.
        topics: what is subscribed to, by name, as far as it exists and once it was looked up.
        offsets: what it has committed.
        timers: what time does to each member; none while the group is only read from the log.
        is_assigning: whether a target is being made, which may be for an earlier epoch.
        is_matching: whether it is being found out what the members' regular expressions mean.
        has_new_meanings: whether that was found out between two heartbeats.
    """

    __slots__ = (
        "_has_new_subscriptions",
        "_holders",
        "_joined",
        "_named_topics",
        "_subscriptions",
        "assigned_ms",
        "assignment_epoch",
        "epoch",
        "group_id",
        "has_new_meanings",
        "has_topics_record",
        "is_assigning",
        "is_dead",
        "is_matching",
        "members",
        "metadata_hash",
        "offsets",
        "regexes",
        "regexes_of",
        "seen_epoch",
        "seen_ms",
        "static_members",
        "target",
        "timers",
        "topics",
    )

    protocol_type = PROTOCOL_TYPE
    kind = "consumer"

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.seen_epoch, self.seen_ms = -1, 0
        self.assignment_epoch = 0
        self.assigned_ms = 0
        self.metadata_hash = 0
        self.has_topics_record = False
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Partitions] = {}
        self.topics: Mapping[str, TopicMetadata] = {}
        self.offsets = GroupOffsets() if offsets is None else offsets
        self.timers: dict[str, MemberTimers] = {}
        self.is_dead = False
        #: By regular expression, the topics that it means, of those named in `regexes_of`, under rules of that number.
        self.regexes: dict[str, frozenset[str]] = {}
        self.regexes_of: tuple[Collection[str], int] | None = None
        self.is_assigning = False
        self.is_matching = False
        self.has_new_meanings = False
        self._joined: dict[tuple[frozenset[str], str], frozenset[str]] = {}  # of members with names and an expression
        self._subscriptions: dict[frozenset[str], frozenset[str]] = {}  # one object for sets that are equal
        self._named_topics: frozenset[str] | None = frozenset()
        self._has_new_subscriptions = False
        self._holders: dict[tuple[bytes, int], str] = {}  # of partitions, by member id

    # Where it stands

    @property
    def state(self) -> ConsumerGroupState:
        """Where it stands."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Has it no members?"""
        return not self.members

    def die(self) -> None:
        """It is no more."""
        self.is_dead = True

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that goes by an instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Partitions:
        """The target assignment of a member, or of the one whose place it takes."""
        before = self.static_member(member.instance_id)
        return self.target.get(member.member_id if before is None else before.member_id, NOTHING)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Is this partition without an owner?"""
        return (topic_id, partition) not in self._holders

    def waits(self, member: ConsumerMember) -> bool:
        """Is a partition that a member is to read still with another one?"""
        return any(
            index not in member.assigned.get(topic, frozenset()) and not self.is_free(topic, index)
            for topic, indexes in self.target.get(member.member_id, NOTHING).items()
            for index in indexes
        )

    def subscribed_topics(self) -> set[str]:
        """The topics that the members subscribe to, whether they exist or not."""
        return self.topics_of_all(self.members.values())

    @property
    def named_topics(self) -> frozenset[str] | None:
        """The topics that the members name; None where one of them has a regular expression as well."""
        if self._has_new_subscriptions:
            members = self.members.values()
            has_regex = any(member.regex for member in members)
            self._named_topics = None if has_regex else frozenset(self.topics_of_all(members))
            self._has_new_subscriptions = False
        return self._named_topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member names, and those that its regular expression means."""
        if not member.regex:
            return member.topics
        meant = self.regexes.get(member.regex, frozenset[str]())
        if not member.topics:
            return meant
        key = member.topics, member.regex
        joined = self._joined.get(key)
        if joined is None:
            joined = self._joined[key] = member.topics | meant
        return joined

    def topics_of_all(self, members: Iterable[ConsumerMember]) -> set[str]:
        """The topics that any of some members subscribes to; most members of a group want the same."""
        distinct = {id(topics): topics for topics in map(self.topics_of, members)}
        return set[str]().union(*distinct.values())

    def note_meanings(self, regexes: dict[str, frozenset[str]], of: tuple[Collection[str], int] | None) -> None:
        """Regular expressions mean these topics, of all that `of` has."""
        self.regexes, self.regexes_of = regexes, of
        self._joined.clear()

    def successor(self, member: ConsumerMember) -> ConsumerMember | None:
        """The member as it is now, or the one that has taken its place; None if it is gone."""
        return self.members.get(member.member_id) or self.static_member(member.instance_id)

    def assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """The assignor that most members wish for."""
        wishes = Counter(member.server_assignor for member in members if member.server_assignor is not None)
        return max(hash_order(wishes, string_hash), key=wishes.__getitem__, default=default)

    # Members of the classic protocol

    def classic_members(self) -> list[ConsumerMember]:
        """Those that speak the classic protocol."""
        return [member for member in self.members.values() if member.is_classic]

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Could a member with these classic protocols join?"""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if self.is_empty:
            return bool(names)
        classic = self.classic_members()
        supported = Counter(
            protocol.name
            for each in classic
            if each.classic is not None
            for protocol in each.classic.supported_protocols
        )
        return any(supported[name] == len(classic) for name in names)

    # Checks

    def validate_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode:
        """May this one commit offsets now? NONE, or why not (`validateOffsetCommit`).

        As in Kafka 4, a transaction may come without a member; 3.9 answers UNKNOWN_MEMBER_ID then.
        """
        names_nobody = not member_id and group_instance_id is None
        if generation_id < 0 and (self.is_empty or (is_transactional and names_nobody)):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and not member.is_classic and version < FIRST_WITH_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        code = _epoch_error(member, generation_id)
        is_early = is_transactional and version < FIRST_TRANSACTIONAL_WITH_EPOCHS
        return ErrorCode.ILLEGAL_GENERATION if code and is_early else code

    def may_commit_late(self, member_id: str, epoch: int, places: Iterable[tuple[bytes, int]]) -> bool:
        """May a member commit in an epoch before its own, for partitions that it has had since then (KIP-1251)?"""
        member = self.members.get(member_id)
        if member is None or epoch > member.epoch:
            return False
        since = (member.epoch_of(*place) for place in places)
        return all(each is not None and each <= epoch for each in since)

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """May this member read committed offsets? A request without a member may (`validateOffsetFetch`)."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _epoch_error(member, epoch)

    def note_activity(self, member_id: str) -> None:
        """A commit is no heartbeat here."""

    # Records

    def apply(self, key: Any, value: Any | None) -> None:
        """A record is written, or was read; None is a tombstone."""
        if isinstance(key, records.ConsumerGroupMetadataKey):
            self.epoch = 0 if value is None else value.epoch
            self.metadata_hash = 0 if value is None else value.metadata_hash
        elif isinstance(key, records.ConsumerGroupPartitionMetadataKey):
            self.has_topics_record = value is not None
            if value is not None:
                self.topics = _topics_of(value)
        elif isinstance(key, records.ConsumerGroupTargetAssignmentMetadataKey):
            self.assignment_epoch = _GONE if value is None else value.assignment_epoch
            self.assigned_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, records.ConsumerGroupTargetAssignmentMemberKey):
            if value is None:
                self.target.pop(key.member_id, None)
            else:
                self.target[key.member_id] = partitions_of(value.topic_partitions)
        elif isinstance(key, records.ConsumerGroupMemberMetadataKey):
            if value is None:
                self._put(key.member_id, None)
            else:
                self._put(key.member_id, self._member(key.member_id).with_metadata(value))
        elif isinstance(key, records.ConsumerGroupCurrentMemberAssignmentKey) and value is not None:
            self._put(key.member_id, self._member(key.member_id).with_current(value))

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id)

    def _put(self, member_id: str, member: ConsumerMember | None) -> None:
        before = self.members.pop(member_id, None)
        if before is None or member is None or (before.topics, before.regex) != (member.topics, member.regex):
            self._has_new_subscriptions = True
        if before is not None:
            for place in _places(before):
                if self._holders.get(place) == member_id:
                    del self._holders[place]
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        if member is None:
            return
        if len(self._subscriptions) > 2 * len(self.members):
            self._subscriptions.clear()
        topics = self._subscriptions.setdefault(member.topics, member.topics)
        if topics is not member.topics:
            member = replace(member, topics=topics)
        self.members[member_id] = member
        for place in _places(member):
            self._holders[place] = member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id


def _places(member: ConsumerMember) -> list[tuple[bytes, int]]:
    """The partitions that a member reads, and those that it has to give up."""
    return [
        (topic, index)
        for partitions in (member.assigned, member.revoking)
        for topic, indexes in partitions.items()
        for index in indexes
    ]


def _topics_of(value: records.ConsumerGroupPartitionMetadataValue) -> dict[str, TopicMetadata]:
    return {
        topic.topic_name: TopicMetadata(bytes(topic.topic_id), topic.num_partitions, _racks_of(topic))
        for topic in value.topics
    }


def _racks_of(topic: records.TopicMetadata) -> PartitionRacks:
    """Return the racks of each partition; the record leaves out partitions without racks."""
    by_partition = {partition.partition: tuple(sorted(partition.racks)) for partition in topic.partition_metadata}
    return tuple(by_partition.get(index, ()) for index in range(topic.num_partitions)) if by_partition else ()


def _epoch_error(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
