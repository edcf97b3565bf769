"""The hash of the topics that a group subscribes to (Kafka's `Utils.computeGroupHash` and `computeTopicHash`).

A coordinator that reads a group from the log knows by it whether the topics are still the same. Racks of brokers, which
Kafka's hash has as well, are not in it here.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from xxhash import xxh3_64_intdigest

from minibroker.coordinators.groups.modern.topics import TopicMetadata

_FORMAT_VERSION: Final = b"\0"
_COUNTS: Final = struct.Struct("<II")


def hash_of(topics: Mapping[str, TopicMetadata]) -> int:
    """A signed number of 64 bits that stands for topics; 0 for none."""
    if not topics:
        return 0
    hashes = [_topic_hash(name, topics[name]) for name in sorted(topics)]
    value = xxh3_64_intdigest(struct.pack(f"<{len(hashes)}Q", *hashes))
    return value - (1 << 64) if value >> 63 else value


def _topic_hash(name: str, topic: TopicMetadata) -> int:
    high, low = topic.topic_id[:8], topic.topic_id[8:]
    letters = name.encode("utf-16-le", "surrogatepass")
    counts = _COUNTS.pack(len(letters) // 2, topic.partitions)
    return xxh3_64_intdigest(
        b"".join((_FORMAT_VERSION, high[::-1], low[::-1], letters, counts, _indexes(topic.partitions)))
    )


@lru_cache(maxsize=16)
def _indexes(partitions: int) -> bytes:
    return struct.pack(f"<{partitions}I", *range(partitions))
