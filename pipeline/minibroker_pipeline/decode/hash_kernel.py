"""murmur2 compiled by numba. See `decode.kernel`, whose rules hold here too."""

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from minibroker_pipeline.decode.kernel import BYTES, compiled

_READ_I32: Final = types.Array(types.int32, 1, "C", readonly=True)
_OUT: Final = types.Array(types.int64, 1, "C")
_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


@compiled(types.void(BYTES, _READ_I32, _READ_I32, _OUT))
def _hash_all(data, at, size, out):
    """One line of `out` for each value."""
    for row in range(at.size):
        length = max(np.int64(size[row]), np.int64(0))
        place = np.int64(at[row])
        value = _SEED ^ length
        end = place + length // 4 * 4
        while place < end:
            mixed = (
                np.int64(data[place])
                | np.int64(data[place + 1]) << 8
                | np.int64(data[place + 2]) << 16
                | np.int64(data[place + 3]) << 24
            )
            mixed = mixed * _MULTIPLIER & _MASK
            mixed ^= mixed >> 24
            mixed = mixed * _MULTIPLIER & _MASK
            value = (value * _MULTIPLIER & _MASK) ^ mixed
            place += 4
        rest = length % 4
        if rest:
            for byte in range(rest):
                value ^= np.int64(data[place + byte]) << (8 * byte)
            value = value * _MULTIPLIER & _MASK
        value ^= value >> 13
        value = value * _MULTIPLIER & _MASK
        out[row] = value ^ (value >> 15)


def hashes(data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32]) -> NDArray[np.int64]:
    """See `sink.partitioner.Hash`."""
    out = np.empty(len(at), np.int64)
    _hash_all(data, np.ascontiguousarray(at), np.ascontiguousarray(size), out)
    return out
