"""Partitions by topic id, and the subscribed topics of a modern group with their hash."""

import struct
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, NamedTuple

from xxhash import xxh3_64_intdigest

from minibroker.cluster.partition import PartitionRacks
from minibroker.cluster.topics import Topics

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id, without topics that have no partitions."""
NOTHING: Final[Partitions] = {}
_HASH_FORMAT_VERSION: Final = b"\0"
_LENGTH_BYTES: Final = 4


def partitions_of(topics: Iterable[Any]) -> Partitions:
    """Return the partitions listed in a message or record whose elements have a `topic_id` and `partitions`."""
    partitions: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            topic_id = bytes(topic.topic_id)
            partitions[topic_id] = partitions.get(topic_id, frozenset[int]()).union(topic.partitions)
    return partitions


def freeze_partitions(partitions: Mapping[bytes, Iterable[int]]) -> Partitions:
    """Return partitions as immutable sets. Topics without partitions are omitted."""
    sets = {topic: frozenset(indexes) for topic, indexes in partitions.items()}
    return {topic: indexes for topic, indexes in sets.items() if indexes}


def is_subset(some: Partitions, of: Partitions) -> bool:
    """Return whether `of` contains all partitions in `some`."""
    return all(indexes <= of.get(topic, frozenset()) for topic, indexes in some.items())


class TopicMetadata(NamedTuple):
    """The state of a topic at the last heartbeat that looked it up.

    Attributes:
        racks: The sorted racks of the replicas of each partition, or an empty tuple if no broker has a rack.
    """

    topic_id: bytes
    partitions: int
    racks: PartitionRacks = ()


def find_topics(
    topics: Topics, names: AbstractSet[str], known: Mapping[str, TopicMetadata]
) -> Mapping[str, TopicMetadata]:
    """Return the existing topics among `names`.

    Args:
        topics: All topics.
        names: The names of subscribed topics.
        known: The result of an earlier call. It is returned again if nothing has changed.
    """
    existing = {
        name: TopicMetadata(topic.id, len(topic.partitions), topic.racks(topics.cluster))
        for name in names
        if (topic := topics.get(name)) is not None
    }
    return known if existing == known else dict(sorted(existing.items()))


def hash_topics(topics: Mapping[str, TopicMetadata]) -> int:
    """Return a signed 64-bit hash, 0 without topics (Kafka's `Utils.computeGroupHash` and `computeTopicHash`).

    A coordinator that has loaded a group compares the hash to see whether the topics or their racks have changed.
    """
    if not topics:
        return 0
    hashes = [_topic_hash(name, topics[name]) for name in sorted(topics)]
    value = xxh3_64_intdigest(struct.pack(f"<{len(hashes)}Q", *hashes))
    return value - (1 << 64) if value >> 63 else value


def _topic_hash(name: str, topic: TopicMetadata) -> int:
    high, low = topic.topic_id[:8], topic.topic_id[8:]
    head = _HASH_FORMAT_VERSION + high[::-1] + low[::-1] + _encode_text(name)
    partitions = map(_encode_partition, range(topic.partitions), topic.racks)
    tail = b"".join(partitions) if topic.racks else _encode_indexes(topic.partitions)
    return xxh3_64_intdigest(head + topic.partitions.to_bytes(4, "little") + tail)


def _encode_partition(index: int, racks: tuple[str, ...]) -> bytes:
    """Return the bytes that a partition adds to the hash. Each rack's length comes both before and after the rack."""
    texts = map(_encode_text, racks)
    return index.to_bytes(4, "little") + b"".join(text[-_LENGTH_BYTES:] + text for text in texts)


def _encode_text(text: str) -> bytes:
    letters = text.encode("utf-16-le", "surrogatepass")
    return letters + (len(letters) // 2).to_bytes(_LENGTH_BYTES, "little")


@lru_cache(maxsize=16)
def _encode_indexes(partitions: int) -> bytes:
    return struct.pack(f"<{partitions}I", *range(partitions))
