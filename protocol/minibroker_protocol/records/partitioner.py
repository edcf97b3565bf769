"""Selects the partition for a key, exactly as in Kafka's clients."""

from struct import Struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_WORD: Final = Struct("<I")


def murmur2(data: bytes) -> int:
    """Return Kafka's hash of a key as an unsigned number (`Utils.murmur2`: 32-bit MurmurHash2 with Kafka's seed)."""
    length = len(data)
    value = _SEED ^ length
    words_end = length & ~3
    for (word,) in _WORD.iter_unpack(data[:words_end]):
        mixed = word * _M & _MASK
        mixed ^= mixed >> _R
        value = (value * _M & _MASK) ^ (mixed * _M & _MASK)
    if remaining := data[words_end:]:
        value = (value ^ int.from_bytes(remaining, "little")) * _M & _MASK
    value ^= value >> 13
    value = value * _M & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with this many partitions (`BuiltInPartitioner.partitionForKey`)."""
    return (murmur2(key) & _POSITIVE) % partitions
