"""A share group, its members and its share-partitions (Kafka's `ShareGroup`)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from minibroker.clock import Clock
from minibroker.coordinators.groups.modern.group import MemberState, ModernGroup, ModernGroupState, ModernMember
from minibroker.coordinators.groups.modern.records import Change, GroupRecords
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, TopicMetadata, partitions_of
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker_protocol.coordinator_records import share_groups
from minibroker_protocol.coordinator_records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitions,
    TopicPartitionsInfo,
)
from minibroker_protocol.error_codes import ErrorCode

ASSIGNOR: Final = "simple"
RECORDS: Final = GroupRecords(share_groups, "ShareGroup", before_group=ShareGroupStatePartitionMetadataKey)


class TopicState(NamedTuple):
    """Some partitions of a topic, and the Unix time, in milliseconds, at which they were added."""

    name: str
    partitions: frozenset[int]
    timestamp_ms: int = 0


Topics = Mapping[bytes, TopicState]
"""Partitions by topic id, without topics that have no partitions."""
NO_TOPICS: Final[Topics] = {}


class StatePartitions(NamedTuple):
    """The share-partitions of a group (Kafka's `ShareGroupStatePartitionMetadataInfo`).

    It is immutable. Methods return a changed copy, to be written as a record.

    Attributes:
        initializing: The partitions whose states are being initialized by the share coordinator.
        initialized: The partitions with a state. Only they can be assigned to members.
        deleting: The names of topics whose states are being deleted, by topic id.
    """

    initializing: Topics = NO_TOPICS
    initialized: Topics = NO_TOPICS
    deleting: Mapping[bytes, str] = {}

    @classmethod
    def of(cls, value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> Self:
        """Return the share-partitions from a record. `now_ms` becomes the time at which they were added."""
        return cls(
            _topics_of(value.initializing_topics, now_ms),
            _topics_of(value.initialized_topics, now_ms),
            {bytes(topic.topic_id): topic.topic_name for topic in value.deleting_topics},
        )

    def to_value(self) -> ShareGroupStatePartitionMetadataValue:
        """Return the record of the share-partitions."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_list_topics(self.initializing),
            initialized_topics=_list_topics(self.initialized),
            deleting_topics=[TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in self.deleting.items()],
        )

    def indexes(self) -> dict[bytes, frozenset[int]]:
        """Return the partitions that have a state."""
        return {topic_id: state.partitions for topic_id, state in self.initialized.items()}

    def everything(self) -> dict[bytes, TopicState]:
        """Return the partitions that have a state, or whose state is being initialized."""
        return _merge_topics(self.initialized, self.initializing)

    def missing(self, counts: Mapping[bytes, tuple[str, int]], now_ms: int, retry_ms: int) -> dict[bytes, TopicState]:
        """Return the partitions that need a state.

        These are partitions that have no state and whose initialization has not begun, or began more than `retry_ms`
        ago. `counts` has the name and partition count of each topic by topic id.
        """
        recent = {topic: state for topic, state in self.initializing.items() if now_ms - state.timestamp_ms < retry_ms}
        known_states = _merge_topics(self.initialized, recent) if recent else self.initialized
        missing_topics: dict[bytes, TopicState] = {}
        for topic, (name, count) in counts.items():
            known_indexes = known_states[topic].partitions if topic in known_states else frozenset[int]()
            if len(known_indexes) < count:
                missing_topics[topic] = TopicState(name, frozenset(range(count)) - known_indexes, now_ms)
        return missing_topics

    def begin_initialization(self, topics: Topics) -> Self:
        """Return the share-partitions after the initialization of some topics has begun.

        These topics are no longer being deleted.
        """
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return self._replace(initializing=_merge_topics(self.initializing, topics), deleting=deleting)

    def finish_initialization(self, topics: Topics) -> Self:
        """Return the share-partitions after some topics were initialized."""
        initialized = _merge_topics(self.initialized, topics)
        return self.give_up_initialization(topics)._replace(initialized=initialized)

    def give_up_initialization(self, topics: Topics) -> Self:
        """Return the share-partitions after the initialization of some topics has failed."""
        remaining: dict[bytes, TopicState] = {}
        for topic_id, state in self.initializing.items():
            partitions = state.partitions - topics[topic_id].partitions if topic_id in topics else state.partitions
            if partitions:
                remaining[topic_id] = state._replace(partitions=partitions)
        return self._replace(initializing=remaining)

    def begin_deletion(self, topics: Mapping[bytes, str]) -> Self:
        """Return the share-partitions after the deletion of some topics' states has begun."""
        remaining = {topic_id: state for topic_id, state in self.initialized.items() if topic_id not in topics}
        return self._replace(initialized=remaining, deleting={**self.deleting, **topics})

    def finish_deletion(self, topics: Collection[bytes]) -> Self:
        """Return the share-partitions after the states of some topics were deleted."""
        return self._replace(deleting={topic: name for topic, name in self.deleting.items() if topic not in topics})

    def without(self, topics: Collection[bytes]) -> Self:
        """Return the share-partitions without the partitions of deleted topics."""
        return self.finish_deletion(topics)._replace(
            initializing={topic_id: state for topic_id, state in self.initializing.items() if topic_id not in topics},
            initialized={topic_id: state for topic_id, state in self.initialized.items() if topic_id not in topics},
        )


def _merge_topics(topics: Topics, added: Topics) -> dict[bytes, TopicState]:
    merged = dict(topics)
    for topic, state in added.items():
        old = merged.get(topic)
        merged[topic] = state if old is None else state._replace(partitions=old.partitions | state.partitions)
    return merged


def _topics_of(listed: Iterable[TopicPartitionsInfo], now_ms: int) -> dict[bytes, TopicState]:
    return {bytes(info.topic_id): TopicState(info.topic_name, frozenset(info.partitions), now_ms) for info in listed}


def _list_topics(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=state.name, partitions=sorted(state.partitions))
        for topic_id, state in topics.items()
    ]


@dataclass(frozen=True, slots=True)
class ShareMember(ModernMember):
    """A member of a share group (Kafka's `ShareGroupMember`).

    Attributes:
        topics: The names of the subscribed topics.
        assigned: The partitions from which the member fetches.
    """

    topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=lambda: NOTHING)

    def to_metadata(self) -> ShareGroupMemberMetadataValue:
        """Return the record of the metadata."""
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
        )

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> Self:
        """Return a copy of the member with the metadata from a record."""
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def to_current(self) -> ShareGroupCurrentMemberAssignmentValue:
        """Return the record of the current assignment."""
        listed = [
            TopicPartitions(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in self.assigned.items()
        ]
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=MemberState.STABLE,
            assigned_partitions=listed,
        )

    def with_current(self, value: ShareGroupCurrentMemberAssignmentValue) -> Self:
        """Return a copy of the member with the current assignment from a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=partitions_of(value.assigned_partitions),
        )


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """A group whose members share the records of partitions.

    Attributes:
        partitions: The group's share-partitions.
        topics: The topics that are part of `metadata_hash`. Empty before the first lookup.
        complete: The topics and share-partitions at the last check at which no state was missing.
    """

    kind = "share"
    records = RECORDS

    def __init__(self, group_id: str, clock: Clock) -> None:
        super().__init__(group_id)
        self.partitions = StatePartitions()
        self.topics: Mapping[str, TopicMetadata] = {}
        self.complete: tuple[Mapping[str, TopicMetadata], StatePartitions] | None = None
        self._clock = clock
        self._subscribed: frozenset[str] | None = frozenset()
        self._waits: bool | None = None

    def _state_with_members(self) -> ModernGroupState:
        return ModernGroupState.STABLE

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics to which the members subscribe, including topics that do not exist."""
        if self._subscribed is None:
            self._subscribed = topics_of_all(self.members.values())
        return self._subscribed

    def waits_for_assignment(self) -> bool:
        """Return whether any initialized partition of a subscribed topic is not assigned to a member."""
        if self._waits is None:
            self._waits = self._find_unassigned()
        return self._waits

    def _find_unassigned(self) -> bool:
        if not self.members or not self.partitions.initialized:
            return False
        subscribed = self.subscribed_topics()
        ready = {
            topic: state.partitions for topic, state in self.partitions.initialized.items() if state.name in subscribed
        }
        if not ready:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in self.target.values():
            for topic, indexes in target.items():
                assigned.setdefault(topic, set()).update(indexes)
        return any(indexes.symmetric_difference(assigned.get(topic, ())) for topic, indexes in ready.items())

    def validate_commit(self, *_: Any, **__: Any) -> ErrorCode:
        """Return an error, because share groups have no committed offsets (`validateOffsetCommit`)."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def apply(self, key: Any, value: Any | None) -> None:
        """Apply a written or loaded record. A value of None is a tombstone."""
        self._waits = None
        super().apply(key, value)

    def _apply_own(self, key: Any, value: Any | None) -> None:
        if isinstance(key, ShareGroupStatePartitionMetadataKey):
            self.partitions = StatePartitions() if value is None else StatePartitions.of(value, self._clock.now_ms())

    def _new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id)

    def _put(self, member_id: str, member: ShareMember | None) -> ShareMember | None:
        previous = self.members.get(member_id)
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member
        if previous is None or member is None or previous.topics != member.topics:
            self._subscribed = None
        return previous

    def target_of(self, member_id: str) -> Partitions:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NOTHING)


def state_partitions(group_id: str, partitions: StatePartitions) -> Change:
    """Return the record of a group's share-partitions."""
    return Change(ShareGroupStatePartitionMetadataKey(group_id=group_id), partitions.to_value())


def keys_of(group_id: str, topics: Topics) -> list[SharePartitionKey]:
    """Return the keys of a group's share-partitions for some topics."""
    return [
        SharePartitionKey(group_id, topic_id, index)
        for topic_id, state in topics.items()
        for index in sorted(state.partitions)
    ]


def topics_of_all(members: Iterable[ShareMember]) -> frozenset[str]:
    """Return the topics to which any of the given members subscribes."""
    return frozenset[str]().union(*{member.topics for member in members})
