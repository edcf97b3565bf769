"""Kafka's partitioner: by the hash of a record's key; without a key, a batch here and a batch there.

Kafka's `Utils.murmur2` and `BuiltInPartitioner`: producers of all languages that follow it agree with this.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.assemble import Binary

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_SHIFT: Final = np.uint32(24)
_REST_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
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
        found = (hashes(keys.data, keys.at, keys.size) & _POSITIVE).astype(np.int64) % self._partitions
        without = np.flatnonzero(keys.size < 0)
        if len(without):
            ends = self._bytes_without_key + np.cumsum(sizes[without])
            found[without] = (self._first + (ends - sizes[without]) // self._batch_bytes) % self._partitions
            self._bytes_without_key = int(ends[-1])
        return found


def hashes(data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32]) -> NDArray[np.uint32]:
    """Return murmur2 of each value, and anything for a null: of all side by side, four bytes at a time."""
    padded = np.append(data, np.zeros(_BLOCK, np.uint8))
    blocks: NDArray[np.uint32] = np.ndarray(len(data) + 1, "<u4", padded, strides=(1,))
    order = np.argsort(-size, kind="stable")
    places, sizes = at[order], np.maximum(size[order], 0)
    counts = sizes // _BLOCK
    values = _SEED ^ sizes.astype(np.uint32)
    for block in range(int(counts[0]) if len(counts) else 0):
        count = int(np.searchsorted(-counts, -block, side="left"))
        mixed = blocks[places[:count] + block * _BLOCK] * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        values[:count] = (values[:count] * _MULTIPLIER) ^ (mixed * _MULTIPLIER)
    rest = sizes % _BLOCK
    some = np.flatnonzero(rest)
    last = blocks[places[some] + counts[some] * _BLOCK] & _REST_MASKS[rest[some]]
    values[some] = (values[some] ^ last) * _MULTIPLIER
    values = (values ^ (values >> np.uint32(13))) * _MULTIPLIER
    found = np.empty_like(values)
    found[order] = values ^ (values >> np.uint32(15))
    return found
