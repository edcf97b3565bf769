"""Sets of partitions, by the ids of their topics."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

Partitions = Mapping[bytes, frozenset[int]]
"""No topic has an empty set."""
NOTHING: Final[Partitions] = {}


class TopicPartitions(Protocol):
    """Partitions of a topic, as messages and records name them."""

    topic_id: bytes
    partitions: list[int]


def partitions_of(topics: Iterable[TopicPartitions]) -> Partitions:
    """The partitions that a message or a record names."""
    found: dict[bytes, frozenset[int]] = {}
    for each in topics:
        if each.partitions:
            topic, indexes = bytes(each.topic_id), frozenset(each.partitions)
            before = found.get(topic)
            found[topic] = indexes if before is None else before | indexes
    return found


def frozen(partitions: Mapping[bytes, Iterable[int]]) -> Partitions:
    """The same, with sets that do not change; without topics that have none."""
    sets = {topic: frozenset(indexes) for topic, indexes in partitions.items()}
    return {topic: indexes for topic, indexes in sets.items() if indexes}


def is_subset(some: Partitions, of: Partitions) -> bool:
    """Whether `of` has all of `some`."""
    return all(indexes <= of.get(topic, frozenset()) for topic, indexes in some.items())
