"""The hash of the topics that a group subscribes to (Kafka's `Utils.computeGroupHash` and `computeTopicHash`).

A coordinator that reads a group from the log knows by it whether the topics and their racks are still the same.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from xxhash import xxh3_64_intdigest

from minibroker.coordinators.groups.modern.topics import TopicMetadata

_FORMAT_VERSION: Final = b"\0"
_LENGTH_BYTES: Final = 4


def hash_of(topics: Mapping[str, TopicMetadata]) -> int:
    """A signed number of 64 bits that stands for topics; 0 for none."""
    if not topics:
        return 0
    hashes = [_topic_hash(name, topics[name]) for name in sorted(topics)]
    value = xxh3_64_intdigest(struct.pack(f"<{len(hashes)}Q", *hashes))
    return value - (1 << 64) if value >> 63 else value


def _topic_hash(name: str, topic: TopicMetadata) -> int:
    high, low = topic.topic_id[:8], topic.topic_id[8:]
    ends = b"".join(map(_end_of, range(topic.partitions), topic.racks)) if topic.racks else _indexes(topic.partitions)
    parts = _FORMAT_VERSION, high[::-1], low[::-1], _text(name), topic.partitions.to_bytes(4, "little"), ends
    return xxh3_64_intdigest(b"".join(parts))


def _end_of(index: int, racks: tuple[str, ...]) -> bytes:
    """Return the hashed bytes of a partition; a rack has its length on either side."""
    texts = map(_text, racks)
    return index.to_bytes(4, "little") + b"".join(text[-_LENGTH_BYTES:] + text for text in texts)


def _text(text: str) -> bytes:
    letters = text.encode("utf-16-le", "surrogatepass")
    return letters + (len(letters) // 2).to_bytes(_LENGTH_BYTES, "little")


@lru_cache(maxsize=16)
def _indexes(partitions: int) -> bytes:
    return struct.pack(f"<{partitions}I", *range(partitions))
