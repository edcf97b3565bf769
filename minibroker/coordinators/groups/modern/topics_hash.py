"""The hash of the topics that a group subscribes to (Kafka's `Utils.computeGroupHash` and `computeTopicHash`).

A coordinator that reads a group from the log knows by it whether the topics are still the same. Racks of brokers, which
Kafka's hash has as well, are not in it here.
"""

import hashlib
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.support.xxh3 import xxh3_64

_MOST_TOPICS: Final = 500
_MOST_PARTITIONS: Final = 20_000
"""So many are hashed in some 5 ms; beyond that the hash is another one than Kafka's."""
_BYTES: Final = 8
_FORMAT_VERSION: Final = b"\0"


def hash_of(topics: Mapping[str, TopicMetadata]) -> int:
    """A signed number of 64 bits that stands for topics; 0 for none."""
    if not topics:
        return 0
    if len(topics) > _MOST_TOPICS or sum(each.partitions for each in topics.values()) > _MOST_PARTITIONS:
        return _quick(topics)
    hashes = [_topic_hash(name, topics[name]) for name in sorted(topics)]
    return _signed(xxh3_64(struct.pack(f"<{len(hashes)}Q", *hashes)))


@lru_cache(maxsize=1024)
def _topic_hash(name: str, topic: TopicMetadata) -> int:
    high, low = struct.unpack(">QQ", topic.topic_id)
    letters = name.encode("utf-16-le", "surrogatepass")
    data = [
        _FORMAT_VERSION,
        struct.pack("<QQ", high, low),
        letters,
        struct.pack("<II", len(letters) // 2, topic.partitions),
        struct.pack(f"<{topic.partitions}I", *range(topic.partitions)),
    ]
    return xxh3_64(b"".join(data))


def _quick(topics: Mapping[str, TopicMetadata]) -> int:
    digest = hashlib.blake2b(digest_size=_BYTES)
    for name, topic in sorted(topics.items()):
        digest.update(topic.topic_id + topic.partitions.to_bytes(4, "big") + name.encode() + b"\0")
    return _signed(int.from_bytes(digest.digest(), "big"))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
