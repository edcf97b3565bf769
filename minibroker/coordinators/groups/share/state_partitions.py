"""The share-partitions of a group: which of them have a state with the share coordinator, get one, or lose it.

Kafka's `ShareGroupStatePartitionMetadataInfo`. It is immutable: each change makes another one, and a record of it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Self

from minibroker_protocol.coordinator_records.share_groups import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)


class TopicState(NamedTuple):
    """Partitions of a topic, and when that was noted, in ms since 1970."""

    name: str
    partitions: frozenset[int]
    timestamp_ms: int = 0


Topics = Mapping[bytes, TopicState]
"""By topic id; no topic has an empty set."""
Indexes = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""
NO_TOPICS: Final[Topics] = {}


class StatePartitions(NamedTuple):
    """The share-partitions of a group.

    Attributes:
        initializing: the share coordinator was asked to make their state.
        initialized: they have a state, and members may be assigned to them.
        deleting: topics whose states are being deleted, with their names.
    """

    initializing: Topics = NO_TOPICS
    initialized: Topics = NO_TOPICS
    deleting: Mapping[bytes, str] = {}

    @classmethod
    def of(cls, value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> Self:
        """The share-partitions of a record, as of now."""
        return cls(
            _topics_of(value.initializing_topics, now_ms),
            _topics_of(value.initialized_topics, now_ms),
            {bytes(each.topic_id): each.topic_name for each in value.deleting_topics},
        )

    def to_value(self) -> ShareGroupStatePartitionMetadataValue:
        """Write it as a record."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_listed(self.initializing),
            initialized_topics=_listed(self.initialized),
            deleting_topics=[TopicInfo(topic_id=topic, topic_name=name) for topic, name in self.deleting.items()],
        )

    def indexes(self) -> dict[bytes, frozenset[int]]:
        """The partitions that have a state."""
        return {topic: each.partitions for topic, each in self.initialized.items()}

    def everything(self) -> dict[bytes, TopicState]:
        """The partitions that have a state, or may have."""
        return _joined(self.initialized, self.initializing)

    def missing(self, counts: Mapping[bytes, tuple[str, int]], now_ms: int, retry_ms: int) -> dict[bytes, TopicState]:
        """The partitions that need a state: those without, and those whose state was asked for too long ago.

        `counts` has names and numbers of partitions by topic id.
        """
        fresh = {topic: each for topic, each in self.initializing.items() if now_ms - each.timestamp_ms < retry_ms}
        known = _joined(self.initialized, fresh) if fresh else self.initialized
        found: dict[bytes, TopicState] = {}
        for topic, (name, count) in counts.items():
            has = known[topic].partitions if topic in known else frozenset[int]()
            if len(has) < count:
                found[topic] = TopicState(name, frozenset(range(count)) - has, now_ms)
        return found

    def begun(self, topics: Topics) -> Self:
        """The state of these is being made; what was being deleted of them is not any more."""
        deleting = {topic: name for topic, name in self.deleting.items() if topic not in topics}
        return self._replace(initializing=_joined(self.initializing, topics), deleting=deleting)

    def done(self, topics: Topics) -> Self:
        """The state of these is there."""
        return self.given_up({topic: each.partitions for topic, each in topics.items()})._replace(
            initialized=_joined(self.initialized, topics)
        )

    def given_up(self, indexes: Indexes) -> Self:
        """The state of these is not being made any more."""
        left: dict[bytes, TopicState] = {}
        for topic, each in self.initializing.items():
            partitions = each.partitions - indexes.get(topic, frozenset())
            if partitions:
                left[topic] = each._replace(partitions=partitions)
        return self._replace(initializing=left)

    def deletes(self, topics: Mapping[bytes, str]) -> Self:
        """The states of these are being deleted."""
        kept = {topic: each for topic, each in self.initialized.items() if topic not in topics}
        return self._replace(initialized=kept, deleting={**self.deleting, **topics})

    def deleted(self, topics: Collection[bytes]) -> Self:
        """The states of these are gone."""
        return self._replace(deleting={topic: name for topic, name in self.deleting.items() if topic not in topics})

    def without(self, topics: Collection[bytes]) -> Self:
        """The topics are gone, and all states of theirs with them."""
        return self.deleted(topics)._replace(
            initializing={topic: each for topic, each in self.initializing.items() if topic not in topics},
            initialized={topic: each for topic, each in self.initialized.items() if topic not in topics},
        )

    def topic_ids(self) -> set[bytes]:
        """All topics that it names."""
        return {*self.initializing, *self.initialized, *self.deleting}


def _joined(some: Topics, more: Topics) -> dict[bytes, TopicState]:
    joined = dict(some)
    for topic, each in more.items():
        known = joined.get(topic)
        joined[topic] = each if known is None else each._replace(partitions=known.partitions | each.partitions)
    return joined


def _topics_of(listed: Iterable[TopicPartitionsInfo], now_ms: int) -> dict[bytes, TopicState]:
    return {bytes(each.topic_id): TopicState(each.topic_name, frozenset(each.partitions), now_ms) for each in listed}


def _listed(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic, topic_name=each.name, partitions=sorted(each.partitions))
        for topic, each in topics.items()
    ]
