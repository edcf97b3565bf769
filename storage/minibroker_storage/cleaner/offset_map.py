"""A map from keys to the offsets of their newest records, in bounded memory (Kafka's `SkimpyOffsetMap`)."""

import os
from array import array
from collections.abc import Iterable
from typing import Final

BYTES_PER_ENTRY: Final = 24
"""Size of a digest and an offset in Kafka's map, the unit of `log.cleaner.dedupe.buffer.size`."""
NOT_FOUND: Final = -1

_MIN_SLOTS: Final = 16
_SALT_BYTES: Final = 16


def max_entries(dedupe_buffer_bytes: int, load_factor: float) -> int:
    """Return how many keys fit into a map of `log.cleaner.dedupe.buffer.size` bytes at the given load factor."""
    return int(dedupe_buffer_bytes // BYTES_PER_ENTRY * load_factor)


def slots_for(limit: int) -> int:
    """Return the smallest power of two that leaves at least a quarter of the slots free, to keep searches short."""
    slots = _MIN_SLOTS
    while slots * 3 < limit * 4:
        slots *= 2
    return slots


class OffsetMap:
    """Maps up to `limit` keys to the offset of their newest record (Kafka's `SkimpyOffsetMap`).

    The map allocates all of its memory when it is created: 16 bytes per slot, and at least 4 slots for every 3
    keys. It stores hashes instead of keys. The key's hash selects the slot, and the 64-bit hash of the salted key
    identifies the entry. Python hashes bytes with SipHash and a secret of the process, and the salt is random as
    well. In a full map of 5 million keys, the chance that any two keys are mistaken for each other is about 1 in
    10**12, even if an attacker chooses the keys.
    """

    __slots__ = ("_mask", "_offsets", "_salt", "_tags", "entries", "latest_offset", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: The number of keys in the map.
        self.entries = 0
        #: The keys of all records up to this offset were added. The owner of the map advances the offset.
        self.latest_offset = NOT_FOUND
        slots = slots_for(limit)
        self._mask = slots - 1
        self._tags = array("q", bytes(slots * 8))
        self._offsets = array("q", bytes(slots * 8))
        self._salt = os.urandom(_SALT_BYTES)

    def put_all(self, keys: Iterable[bytes | None], offsets: Iterable[int], first_offset: int = 0) -> bool:
        """Set the offset of each key, in order. A later offset replaces an earlier one.

        Records without a key and records before `first_offset` are skipped.

        Returns:
            Whether all keys were added. As in Kafka, a full map also rejects a key that it already contains. If the
            result is False, `latest_offset` is the last offset that was added.
        """
        tags, slot_offsets, mask, salt = self._tags, self._offsets, self._mask, self._salt
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
            while (stored_tag := tags[slot]) != tag:
                if not stored_tag:
                    tags[slot] = tag
                    room -= 1
                    break
                slot = (slot + 1) & mask
            slot_offsets[slot] = last = offset
        self.entries = self.limit - room
        if full:
            self.latest_offset = last
        return not full

    def find_newest(self, keys: Iterable[bytes | None]) -> list[int]:
        """Return the offset of each key's newest record, or `NOT_FOUND` for a key that is None or not in the map."""
        tags, slot_offsets, mask, salt = self._tags, self._offsets, self._mask, self._salt
        newest: list[int] = []
        append = newest.append
        for key in keys:
            if key is None:
                append(NOT_FOUND)
                continue
            tag = hash(salt + key) or 1
            slot = hash(key) & mask
            while (stored_tag := tags[slot]) != tag:
                if not stored_tag:
                    append(NOT_FOUND)
                    break
                slot = (slot + 1) & mask
            else:
                append(slot_offsets[slot])
        return newest
