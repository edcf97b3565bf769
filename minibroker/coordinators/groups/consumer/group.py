"""A consumer group and its members: epochs, target and current assignments (Kafka's `ConsumerGroup`)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from minibroker.cluster.partition import PartitionRacks
from minibroker.coordinators.groups.modern.group import AWAY, MemberState, ModernGroup, ModernMember
from minibroker.coordinators.groups.modern.records import Change, GroupRecords
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, TopicMetadata, partitions_of
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker_protocol.coordinator_records import consumer_groups
from minibroker_protocol.coordinator_records.consumer_groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

PROTOCOL_TYPE: Final = "consumer"
RECORDS: Final = GroupRecords(
    consumer_groups, "ConsumerGroup", before_group=consumer_groups.ConsumerGroupPartitionMetadataKey
)

Epochs = Mapping[bytes, Mapping[int, int]]
"""Assignment epochs by topic id and partition."""
NO_EPOCHS: Final[Epochs] = {}


@dataclass(frozen=True, slots=True)
class ConsumerMember(ModernMember):
    """A member of a consumer group (Kafka's `ConsumerGroupMember`).

    While its group migrates, a member can use the classic protocol instead of the consumer protocol.

    Attributes:
        topics: The topic names to which the member subscribes.
        regex: A regular expression for further topics, or an empty string.
        server_assignor: The preferred assignor.
        classic: The metadata from the JoinGroup of a member that uses the classic protocol.
        assigned: The partitions that the member owns, or will own after the next response.
        revoking: The partitions that the member must revoke before it gets others.
        epochs: The epochs in which the member's partitions were assigned, empty before Kafka 4.3.
    """

    topics: frozenset[str] = frozenset()
    regex: str = ""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=lambda: NOTHING)
    revoking: Partitions = field(default_factory=lambda: NOTHING)
    epochs: Epochs = field(default_factory=lambda: NO_EPOCHS)

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.classic is not None

    @property
    def is_revoking(self) -> bool:
        """Whether the member must revoke partitions before it gets others."""
        return self.state is MemberState.UNREVOKED_PARTITIONS

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has reached its target assignment in the given epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def epoch_of(self, topic_id: bytes, index: int) -> int | None:
        """Return the epoch in which a partition was assigned to the member, or None if the member does not have it."""
        for partitions in (self.assigned, self.revoking):
            if index in partitions.get(topic_id, ()):
                return self.epochs.get(topic_id, {}).get(index, max(self.epoch, 0))
        return None

    def assign_epochs(self, epoch: int, *partition_sets: Partitions) -> Epochs:
        """Return the assignment epochs of partitions.

        Partitions that the member already has keep their epoch. The others get `epoch`.
        """
        epochs: dict[bytes, dict[int, int]] = {}
        for partitions in partition_sets:
            for topic, indexes in partitions.items():
                known_epochs, owned = self.epochs.get(topic, {}), self.assigned.get(topic, frozenset())
                epochs.setdefault(topic, {}).update(
                    {index: known_epochs.get(index, epoch) if index in owned else epoch for index in indexes}
                )
        return epochs

    def as_absent(self, *, has_epochs: bool) -> Self:
        """Return the state of an absent static member. It keeps its partitions, and can commit late in any epoch."""
        epochs = {topic: dict.fromkeys(indexes, 0) for topic, indexes in self.assigned.items()}
        return replace(self, epoch=AWAY, revoking=NOTHING, epochs=epochs if has_epochs else NO_EPOCHS)

    def to_metadata(self) -> ConsumerGroupMemberMetadataValue:
        """Return the record of the metadata."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> Self:
        """Return a copy of the member with the metadata from a record."""
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic if classic is not None and classic.supported_protocols else None,
        )

    def to_current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Return the record of the current assignment."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=self._list_partitions(self.assigned),
            partitions_pending_revocation=self._list_partitions(self.revoking),
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Self:
        """Return a copy of the member with the current assignment from a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=partitions_of(value.assigned_partitions),
            revoking=partitions_of(value.partitions_pending_revocation),
            epochs=_epochs_of((*value.assigned_partitions, *value.partitions_pending_revocation), value.member_epoch),
        )

    def _list_partitions(self, partitions: Partitions) -> list[TopicPartitions]:
        records: list[TopicPartitions] = []
        for topic, unsorted_indexes in partitions.items():
            known_epochs, indexes = self.epochs.get(topic), sorted(unsorted_indexes)
            epochs = None if known_epochs is None else [known_epochs[index] for index in indexes]
            records.append(TopicPartitions(topic_id=topic, partitions=indexes, assignment_epochs=epochs))
        return records


def _epochs_of(topics: Iterable[TopicPartitions], member_epoch: int) -> Epochs:
    """Return the assignment epochs in a record, or the member's epoch for records of earlier Kafka releases."""
    epochs_by_topic: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if not epochs or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        epochs_by_topic.setdefault(bytes(topic.topic_id), {}).update(zip(topic.partitions, epochs, strict=True))
    return epochs_by_topic


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    """A group of the consumer protocol.

    Attributes:
        seen_epoch: The group epoch at the last heartbeat with a short interval.
        seen_ms: The time at which `seen_epoch` was first seen.
        has_topics_record: Whether the log has a record of the subscribed topics, as before Kafka 4.1.
        topics: The subscribed topics that exist, by name. Empty before the first lookup.
        regexes: The topics matched by each regular expression.
        matched_among: All topics at the time of the match, and the version of the access rights.
        is_matching: Whether the members' regular expressions are being matched.
        has_new_matches: Whether such a match has changed the members' topics since the last heartbeat.
    """

    kind = PROTOCOL_TYPE
    records = RECORDS

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        super().__init__(group_id, offsets)
        self.seen_epoch, self.seen_ms = -1, 0
        self.has_topics_record = False
        self.topics: Mapping[str, TopicMetadata] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.matched_among: tuple[Collection[str], int] | None = None
        self.is_matching = False
        self.has_new_matches = False
        # Caches a member's topics by its topic names and its regular expression.
        self._joined: dict[tuple[frozenset[str], str], frozenset[str]] = {}
        # Maps each set to itself, so that equal sets share one object.
        self._subscriptions: dict[frozenset[str], frozenset[str]] = {}
        self._named_topics: frozenset[str] | None = frozenset()
        self._has_new_subscriptions = False
        self._holders: dict[tuple[bytes, int], str] = {}  # Member ids by partition.

    def target_of(self, member: ConsumerMember) -> Partitions:
        """Return the target assignment of a member.

        A static member that replaces another member has the target of the replaced member.
        """
        replaced = self.static_member(member.instance_id)
        return self.target.get(member.member_id if replaced is None else replaced.member_id, NOTHING)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a partition has no owner."""
        return (topic_id, partition) not in self._holders

    def waits(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of this member's target."""
        return any(
            index not in member.assigned.get(topic, frozenset()) and not self.is_free(topic, index)
            for topic, indexes in self.target.get(member.member_id, NOTHING).items()
            for index in indexes
        )

    def subscribed_topics(self) -> set[str]:
        """Return the topics to which the members subscribe, including topics that do not exist."""
        return self.topics_of_all(self.members.values())

    @property
    def named_topics(self) -> frozenset[str] | None:
        """The topics to which the members subscribe by name, or None if any member also has a regular expression."""
        if self._has_new_subscriptions:
            members = self.members.values()
            has_regex = any(member.regex for member in members)
            self._named_topics = None if has_regex else frozenset(self.topics_of_all(members))
            self._has_new_subscriptions = False
        return self._named_topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics to which a member subscribes by name or by its regular expression."""
        if not member.regex:
            return member.topics
        matched = self.regexes.get(member.regex, frozenset[str]())
        if not member.topics:
            return matched
        key = member.topics, member.regex
        if (topics := self._joined.get(key)) is None:
            topics = self._joined[key] = member.topics | matched
        return topics

    def topics_of_all(self, members: Iterable[ConsumerMember]) -> set[str]:
        """Return the topics to which any of the given members subscribes."""
        # Most members share one set of topics, so each distinct set is read only once.
        distinct = {id(topics): topics for topics in map(self.topics_of, members)}
        return set[str]().union(*distinct.values())

    def set_matched_topics(
        self, regexes: dict[str, frozenset[str]], matched_among: tuple[Collection[str], int] | None
    ) -> None:
        """Store the topics matched by regular expressions, among all topics in `matched_among`."""
        self.regexes, self.matched_among = regexes, matched_among
        self._joined.clear()

    def assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """Return the assignor preferred by most members."""
        votes = Counter(member.server_assignor for member in members if member.server_assignor is not None)
        return max(hash_order(votes, string_hash), key=votes.__getitem__, default=default)

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a member that supports these classic protocols can join."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if self.is_empty:
            return bool(names)
        classic = [member.classic for member in self.members.values() if member.classic is not None]
        supported = Counter(protocol.name for metadata in classic for protocol in metadata.supported_protocols)
        return any(supported[name] == len(classic) for name in names)

    def may_commit_late(self, member_id: str, epoch: int, partitions: Iterable[tuple[bytes, int]]) -> bool:
        """Return whether a member can commit in an earlier epoch (KIP-1251).

        The member must have had all the partitions since that epoch.
        """
        member = self.members.get(member_id)
        if member is None or epoch > member.epoch:
            return False
        assignment_epochs = (member.epoch_of(*partition) for partition in partitions)
        return all(assignment_epoch is not None and assignment_epoch <= epoch for assignment_epoch in assignment_epochs)

    def _apply_own(self, key: Any, value: Any | None) -> None:
        if isinstance(key, consumer_groups.ConsumerGroupPartitionMetadataKey):
            self.has_topics_record = value is not None
            if value is not None:
                self.topics = _topics_of(value)

    def _new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id)

    def _put(self, member_id: str, member: ConsumerMember | None) -> ConsumerMember | None:
        if member is not None:
            if len(self._subscriptions) > 2 * len(self.members):
                self._subscriptions.clear()
            topics = self._subscriptions.setdefault(member.topics, member.topics)
            if topics is not member.topics:
                member = replace(member, topics=topics)
        previous = super()._put(member_id, member)
        if previous is None or member is None or (previous.topics, previous.regex) != (member.topics, member.regex):
            self._has_new_subscriptions = True
        for partition in () if previous is None else _partitions_held(previous):
            if self._holders.get(partition) == member_id:
                del self._holders[partition]
        for partition in () if member is None else _partitions_held(member):
            self._holders[partition] = member_id
        return previous


def subscribed_topics(group_id: str, topics: Mapping[str, TopicMetadata]) -> Change:
    """Return the record of the subscribed topics, as before Kafka 4.1."""
    records = [
        consumer_groups.TopicMetadata(
            topic_id=topic.topic_id,
            topic_name=name,
            num_partitions=topic.partitions,
            partition_metadata=[
                consumer_groups.PartitionMetadata(partition=index, racks=list(racks))
                for index, racks in enumerate(topic.racks)
                if racks
            ],
        )
        for name, topic in topics.items()
    ]
    key = consumer_groups.ConsumerGroupPartitionMetadataKey(group_id=group_id)
    return Change(key, consumer_groups.ConsumerGroupPartitionMetadataValue(topics=records))


def _partitions_held(member: ConsumerMember) -> list[tuple[bytes, int]]:
    """Return the partitions that a member owns or must revoke."""
    return [
        (topic, index)
        for partitions in (member.assigned, member.revoking)
        for topic, indexes in partitions.items()
        for index in indexes
    ]


def _topics_of(value: consumer_groups.ConsumerGroupPartitionMetadataValue) -> dict[str, TopicMetadata]:
    return {
        topic.topic_name: TopicMetadata(bytes(topic.topic_id), topic.num_partitions, _racks_of(topic))
        for topic in value.topics
    }


def _racks_of(topic: consumer_groups.TopicMetadata) -> PartitionRacks:
    """Return the racks of each partition. The record omits partitions without racks."""
    by_partition = {partition.partition: tuple(sorted(partition.racks)) for partition in topic.partition_metadata}
    return tuple(by_partition.get(index, ()) for index in range(topic.num_partitions)) if by_partition else ()
