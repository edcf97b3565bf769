"""The iteration order of Java's HashMap and HashSet, and of the hash tables in Kafka's coordinators.

Kafka's uniform assignor iterates over Java sets, so their order decides which of two equal members gets an extra
partition. Groups and their members are also listed in this order. The order stays the same if Java converts
buckets to trees.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeVar

from minibroker.coordinators.coordinator_log import java_hash

T = TypeVar("T")
TopicPartition = tuple[bytes, int]
"""A topic id and a partition index."""

_MIN_TABLE_SIZE: Final = 16
_MASK: Final = 0xFFFF_FFFF
_HALF: Final = 16
_SIGNS: Final = 1 << 127 | 1 << 63
_FIBONACCI: Final = -7046029254386353131
_INT_SIGN: Final = 1 << 31
_LONG: Final = (1 << 64) - 1
string_hash: Final = lru_cache(maxsize=10_000)(java_hash)
"""Returns Java's `String.hashCode`, cached."""


def table_size(entries: int, at_least: int = _MIN_TABLE_SIZE) -> int:
    """Return the number of buckets in a table that has grown to hold `entries`.

    A ConcurrentHashMap grows one entry earlier than a HashMap.
    """
    size = at_least
    while entries > size * 3 // 4:
        size *= 2
    return size


def copied_table_size(entries: int) -> int:
    """Return the number of buckets in a HashSet created from a collection with `entries` elements."""
    return 1 << (max(int(entries / 0.75) + 1, _MIN_TABLE_SIZE) - 1).bit_length()


def bucket(hash_code: int, table: int) -> int:
    """Return the bucket for a hash code in a table with `table` buckets."""
    unsigned = hash_code & _MASK
    return (unsigned ^ unsigned >> _HALF) & table - 1


def hash_order(items: Iterable[T], hash_of: Callable[[T], int], table: int | None = None) -> list[T]:
    """Return `items` in the iteration order of a Java hash table.

    Args:
        items: The items in insertion order.
        hash_of: Returns the Java hash code of an item.
        table: The number of buckets, or None for a table that has grown with its items.
    """
    all_items = list(items)
    size = table_size(len(all_items)) if table is None else table
    return sorted(all_items, key=lambda item: bucket(hash_of(item), size))


def topic_id_sort_key(topic_id: bytes) -> int:
    """Return a topic id's sort key. Kafka's `Uuid.compareTo` compares an id as two signed 64-bit numbers."""
    return int.from_bytes(topic_id, "big") ^ _SIGNS


def uuid_hash(uuid: bytes) -> int:
    """Return Kafka's `Uuid.hashCode`."""
    mixed = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (mixed >> 32 ^ mixed) & _MASK


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return the hash code of Kafka's `TopicPartition`."""
    return (31 * (31 + partition) + java_hash(topic)) & _MASK


def partition_hash(partition: TopicPartition) -> int:
    """Return Kafka's `TopicIdPartition.hashCode`."""
    topic, index = partition
    return (31 * (31 + uuid_hash(topic)) + index) & _MASK


def in_order(indexes: Iterable[int]) -> list[int]:
    """Return a topic's partitions in the iteration order of a HashSet of Integers."""
    return hash_order(sorted(indexes), int)


def timeline_order(values_by_name: Mapping[str, T]) -> list[T]:
    """Return the values in the order in which Kafka's `TimelineHashMap` iterates over their names."""
    slots = 2
    while slots < len(values_by_name) * 0.75:
        slots *= 2
    shift = 65 - slots.bit_length()

    def scramble_hash(name: str) -> int:
        value = java_hash(name)
        return (value - 2 * (value & _INT_SIGN)) * _FIBONACCI & _LONG

    # The newest entry in a slot must come first. `reverse=True` keeps entries in the same slot in order, and the second
    # reversal then puts the newest entry first.
    ordered = sorted(values_by_name, key=lambda name: scramble_hash(name) >> shift, reverse=True)
    return [values_by_name[name] for name in reversed(ordered)]
