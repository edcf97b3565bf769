"""Kafka's partitioner: by the hash of a record's key; without a key, a batch here and a batch there.

Kafka's `Utils.murmur2` and `BuiltInPartitioner`: producers of all languages that follow it agree with this.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.encoder_arrays import Binary

Hash = Callable[[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]], NDArray[np.int64]]
"""`hashes(data, at, size)`: murmur2 of each value, 0 to 2**32 - 1; of a null anything."""

SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = np.int64(0xFFFFFFFF)
_POSITIVE: Final = np.int64(0x7FFFFFFF)
_BLOCK: Final = 4


class Partitioner:
    """Partitions for the rows of one topic, chunk after chunk.

    Args:
        partitions: how many the topic has.
        first: where records without a key begin; tasks should differ in it.
        batch_bytes: so much of these goes to one partition before it is the next one's turn.
    """

    def __init__(self, partitions: int, *, first: int = 0, batch_bytes: int = 64 * 1024) -> None:
        self._partitions = partitions
        self._first = first
        self._batch_bytes = batch_bytes
        self._bytes_without_key = 0

    def partitions_of(self, keys: Binary, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The partition of each row; `sizes` are the bytes of the rows, which count for those without a key."""
        if self._partitions == 1:
            return np.zeros(len(keys.size), np.int64)
        found = (_hashes()(keys.data, keys.at, keys.size) & _POSITIVE) % self._partitions
        without = np.flatnonzero(keys.size < 0)
        if len(without):
            ends = self._bytes_without_key + np.cumsum(sizes[without])
            found[without] = (self._first + (ends - sizes[without]) // self._batch_bytes) % self._partitions
            self._bytes_without_key = int(ends[-1])
        return found


def hashes_by_numpy(data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32]) -> NDArray[np.int64]:
    """All values side by side, four bytes at a time: as many steps as the longest has."""
    sizes = np.maximum(size, 0).astype(np.int64)
    places = at.astype(np.int64)
    hashes = (SEED ^ sizes) & _MASK
    lines = np.flatnonzero(sizes >= _BLOCK)
    step = 0
    while len(lines):
        starts = places[lines] + step
        mixed = np.zeros(len(lines), np.int64)
        for byte in range(_BLOCK):
            mixed |= data[starts + byte].astype(np.int64) << (8 * byte)
        mixed = (mixed * MULTIPLIER) & _MASK
        mixed ^= mixed >> 24
        mixed = (mixed * MULTIPLIER) & _MASK
        hashes[lines] = ((hashes[lines] * MULTIPLIER) & _MASK) ^ mixed
        step += _BLOCK
        lines = lines[sizes[lines] >= step + _BLOCK]
    rest = sizes % _BLOCK
    for byte in range(_BLOCK - 2, -1, -1):
        some = np.flatnonzero(rest > byte)
        hashes[some] ^= data[places[some] + (sizes[some] - rest[some]) + byte].astype(np.int64) << (8 * byte)
    some = np.flatnonzero(rest)
    hashes[some] = (hashes[some] * MULTIPLIER) & _MASK
    hashes ^= hashes >> 13
    hashes = (hashes * MULTIPLIER) & _MASK
    return hashes ^ (hashes >> 15)


_found: Final[list[Hash]] = []


def _hashes() -> Hash:
    """The compiled one, or where numba does not work, the other one."""
    if not _found:
        try:
            module: Any = import_module("minibroker_pipeline.decode.hash_kernel")
            _found.append(module.hashes)
        except ImportError:
            _found.append(hashes_by_numpy)
    return _found[0]
