"""From keys to the offsets of their newest records, in bounded memory (Kafka's `SkimpyOffsetMap`)."""

import os
from array import array
from collections.abc import Iterable
from typing import Final

BYTES_PER_ENTRY: Final = 24
"""A digest and an offset, as in Kafka's map: `log.cleaner.dedupe.buffer.size` counts with it."""
NOT_FOUND: Final = -1
SLOT_BYTES: Final = 16

_MIN_SLOTS: Final = 16
_SALT_BYTES: Final = 16


def max_entries(dedupe_buffer_bytes: int, load_factor: float) -> int:
    """The number of keys that fit into a map of `log.cleaner.dedupe.buffer.size` bytes filled up to the load factor."""
    return int(dedupe_buffer_bytes // BYTES_PER_ENTRY * load_factor)


def slots_for(limit: int) -> int:
    """The power of two that leaves every fourth slot free at least, so that searches stay short."""
    slots = _MIN_SLOTS
    while slots * 3 < limit * 4:
        slots *= 2
    return slots


class OffsetMap:
    """Keys and the offset of the newest record of each (Kafka's `SkimpyOffsetMap`).

    Takes up to `limit` keys and 16 bytes for each slot, at least 4 slots for every 3 keys, all at once. No key is
    kept: what stands for it is its hash, which says where to look, and the hash of the salted key, 64 bits, which says
    that it is found. Python's hash of bytes is SipHash with a secret of the process, and the salt is random as well:
    two keys are taken for one with a chance of about one in 10**12 for a full map of 5 million keys, by accident or on
    purpose.
    """

    __slots__ = ("_mask", "_offsets", "_salt", "_tags", "entries", "latest_offset", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: Keys that were put.
        self.entries = 0
        #: The offset up to which the map knows every record; the owner moves it.
        self.latest_offset = NOT_FOUND
        slots = slots_for(limit)
        self._mask = slots - 1
        self._tags = array("q", bytes(slots * 8))
        self._offsets = array("q", bytes(slots * 8))
        self._salt = os.urandom(_SALT_BYTES)

    @property
    def memory_bytes(self) -> int:
        """The bytes that the slots take."""
        return (self._mask + 1) * SLOT_BYTES

    def put_all(self, keys: Iterable[bytes | None], offsets: Iterable[int], first_offset: int = 0) -> bool:
        """Note the offset of each key, in their order; a later one takes the place of an earlier one.

        Records without a key, and those before `first_offset`, are passed over. False when the map was full before a
        key (even a known one, as in Kafka): `latest_offset` then is the last offset that was noted.
        """
        tags, known, mask, salt = self._tags, self._offsets, self._mask, self._salt
        room = self.limit - self.entries
        last = self.latest_offset
        full = False
        for key, offset in zip(keys, offsets, strict=True):
            if key is None or offset < first_offset:
                continue
            if not room:
                full = True
                break
            tag = hash(salt + key) or 1
            slot = hash(key) & mask
            while (found := tags[slot]) != tag:
                if not found:
                    tags[slot] = tag
                    room -= 1
                    break
                slot = (slot + 1) & mask
            known[slot] = last = offset
        self.entries = self.limit - room
        if full:
            self.latest_offset = last
        return not full

    def newest_of(self, keys: Iterable[bytes | None]) -> list[int]:
        """For each key the offset of its newest record, `NOT_FOUND` for a key that is not there and for None."""
        tags, known, mask, salt = self._tags, self._offsets, self._mask, self._salt
        newest: list[int] = []
        append = newest.append
        for key in keys:
            if key is None:
                append(NOT_FOUND)
                continue
            tag = hash(salt + key) or 1
            slot = hash(key) & mask
            while (found := tags[slot]) != tag:
                if not found:
                    append(NOT_FOUND)
                    break
                slot = (slot + 1) & mask
            else:
                append(known[slot])
        return newest
