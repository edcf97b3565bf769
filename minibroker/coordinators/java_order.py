"""The order in which Kafka's coordinators list groups and members: that of their hash tables."""

from collections.abc import Mapping
from typing import Final, TypeVar

from minibroker.coordinators.coordinator_log import java_hash

T = TypeVar("T")
_FIBONACCI: Final = -7046029254386353131
_INT_SIGN: Final = 1 << 31
_LONG: Final = (1 << 64) - 1


def in_timeline_order(named: Mapping[str, T]) -> list[T]:
    """Return values as Kafka's `TimelineHashMap` iterates over them, by the hash codes of their names."""
    slots = 2
    while slots < len(named) * 0.75:
        slots *= 2
    shift = 65 - slots.bit_length()

    def slot(name: str) -> int:
        value = java_hash(name)
        return (value - 2 * (value & _INT_SIGN)) * _FIBONACCI & _LONG

    # Of one slot the last one comes first: a reversed sort keeps the order of equal keys.
    ordered = sorted(named, key=lambda name: slot(name) >> shift, reverse=True)
    return [named[name] for name in reversed(ordered)]


def bucket(value: int, count: int) -> int:
    """Return the bucket of a hash code in a Java `ConcurrentHashMap` of so many keys."""
    buckets = 16
    while count >= buckets * 0.75:
        buckets *= 2
    return (value ^ value >> 16) & (buckets - 1)


def partition_hash(topic: str, partition: int) -> int:
    """Return the hash code of a Java `TopicPartition`."""
    return ((31 + partition) * 31 + java_hash(topic)) & 0xFFFF_FFFF
