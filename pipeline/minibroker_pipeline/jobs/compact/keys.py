"""Hashes of keys: 128 bits, keyed. And the choice of the newest record of each key.

SipHash-1-3 under a new secret of each job: that two keys of a thousand million are taken for one has a chance
of less than one in 10**20, by accident or on purpose. Kafka's cleaner takes the 128 bits of MD5.
"""

import os
from types import ModuleType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import prepare
from minibroker_pipeline.decode.field_positions import RecordTable

_Ints = NDArray[np.int64]
_Words = NDArray[np.uint64]

_WORD: Final = 8
_LEAST_SLOTS: Final = 16


class Secret(NamedTuple):
    """The key of the hash: two int64."""

    first: int
    second: int


class Hashes(NamedTuple):
    """Of each key the upper and the lower half of its hash; anything where the key is null."""

    high: _Ints
    low: _Ints


def new_secret() -> Secret:
    """A random one."""
    first, second = np.frombuffer(os.urandom(16), np.int64).tolist()
    return Secret(first, second)


def load_kernel() -> ModuleType | None:
    """The compiled loops; None where numba does not work."""
    if prepare() != "numba":
        return None
    from minibroker_pipeline.decode import compact_kernel  # noqa: PLC0415 - it takes half a second

    return compact_kernel


def hash_keys(table: RecordTable, secret: Secret, kernel: ModuleType | None) -> Hashes:
    """The hashes of a table's keys."""
    rows = table.rows
    if kernel is None:
        return _hash_side_by_side(table.data, table.key_at[:rows], table.key_size[:rows], secret)
    hashes = Hashes(np.empty(rows, np.int64), np.empty(rows, np.int64))
    kernel.hash_keys(table.data, table.key_at, table.key_size, rows, *secret, *hashes)
    return hashes


def mark_newest(hashes: Hashes, offsets: _Ints, first_dirty: int, kernel: ModuleType | None) -> NDArray[np.bool_]:
    """Which records stay: those of whose key no record from `first_dirty` on has a larger offset.

    Takes some 100 bytes for each record while it works.
    """
    if kernel is None:
        return _mark_sorted(hashes, offsets, first_dirty)
    slots = _LEAST_SLOTS
    while slots < 2 * len(offsets):
        slots *= 2
    is_newest = np.empty(len(offsets), np.uint8)
    keys = np.empty(slots, np.int64), np.empty(slots, np.int64)
    kernel.mark_newest(*hashes, offsets, first_dirty, *keys, np.full(slots, -1, np.int64), is_newest)
    return is_newest.view(np.bool_)


def _mark_sorted(hashes: Hashes, offsets: _Ints, first_dirty: int) -> NDArray[np.bool_]:
    is_newest = np.ones(len(offsets), np.bool_)
    if not len(offsets):
        return is_newest
    order = np.lexsort((hashes.low, hashes.high))
    high, low = hashes.high[order], hashes.low[order]
    begins = np.flatnonzero(np.r_[True, (high[1:] != high[:-1]) | (low[1:] != low[:-1])])
    sizes = np.diff(np.r_[begins, len(offsets)])
    dirty = np.where(offsets >= first_dirty, offsets, -1)[order]
    is_newest[order] = np.repeat(np.maximum.reduceat(dirty, begins), sizes) <= offsets[order]
    return is_newest


def _hash_side_by_side(
    data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32], secret: Secret
) -> Hashes:
    """`kernel.hash_keys` for all keys at a time, word by word."""
    first, second = np.array(secret, np.int64).view(np.uint64)
    state = np.empty((4, len(at)), np.uint64)
    for number, (half, constant) in enumerate(zip((first, second, first, second), _CONSTANTS, strict=True)):
        state[number] = half ^ np.uint64(constant)
    positions = at.astype(np.int64)
    sizes = np.maximum(size, 0).astype(np.int64)
    words = sizes // _WORD
    for step in range(int(np.max(words, initial=0))):
        lanes = np.flatnonzero(words > step)
        some = state[:, lanes]
        _absorb(some, _word_at(data, positions[lanes] + step * _WORD, _WORD))
        state[:, lanes] = some
    rest = sizes % _WORD
    last = sizes.astype(np.uint64) << np.uint64(56)
    for length in range(1, _WORD):
        lanes = np.flatnonzero(rest == length)
        last[lanes] |= _word_at(data, positions[lanes] + words[lanes] * _WORD, length)
    _absorb(state, last)
    state[2] ^= np.uint64(0xEE)
    _rounds(state, 3)
    high = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= np.uint64(0xDD)
    _rounds(state, 3)
    return Hashes(high.view(np.int64), (state[0] ^ state[1] ^ state[2] ^ state[3]).view(np.int64))


_CONSTANTS: Final = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)


def _word_at(data: NDArray[np.uint8], positions: _Ints, length: int) -> _Words:
    """The next `length` bytes at each position as a little-endian number."""
    word = np.zeros(len(positions), np.uint64)
    for index in range(length):
        word |= data[positions + index].astype(np.uint64) << np.uint64(8 * index)
    return word


def _absorb(state: _Words, word: _Words) -> None:
    state[3] ^= word
    _rounds(state, 1)
    state[0] ^= word


def _rotated(value: _Words, by: int) -> _Words:
    return value << np.uint64(by) | value >> np.uint64(64 - by)


def _rounds(state: _Words, count: int) -> None:
    a, b, c, d = state
    for _ in range(count):
        a += b
        b[:] = _rotated(b, 13) ^ a
        a[:] = _rotated(a, 32)
        c += d
        d[:] = _rotated(d, 16) ^ c
        a += d
        d[:] = _rotated(d, 21) ^ a
        c += b
        b[:] = _rotated(b, 17) ^ c
        c[:] = _rotated(c, 32)
