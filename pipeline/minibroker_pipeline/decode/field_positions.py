"""Field positions: where each record's fields lie in the bytes, as an engine finds them, and their columns."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class RecordTable(NamedTuple):
    """The records of some blocks, one entry of each array per record. Positions and sizes are bytes of `data`.

    A size is -1 for null. `header_count` is 0 where a record has no headers, and `headers_at` says nothing there.
    """

    data: NDArray[np.uint8]
    rows: int
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    key_at: NDArray[np.int32]
    key_size: NDArray[np.int32]
    value_at: NDArray[np.int32]
    value_size: NDArray[np.int32]
    headers_at: NDArray[np.int32]
    header_count: NDArray[np.int32]


class RecordEngine(Protocol):
    """The interface that finds and gathers records: `numba_engine` and `numpy_engine` implement it."""

    #: How many times `chunk_bytes` it wants at once.
    chunks_at_once: int

    def chase(
        self, data: NDArray[np.uint8], position: int, until: int, count: int, positions: NDArray[np.int64]
    ) -> tuple[int, int]:
        """As `headers.chase_entries`."""
        ...

    def wrong_crcs(self, view: memoryview, headers: NDArray[Any]) -> list[int]:
        """As `checksums.wrong_crcs`."""
        ...

    def walk(self, data: NDArray[np.uint8], blocks: NDArray[np.int64], first: int, limit: int) -> RecordTable:
        """The records of the blocks (see `blocks`) whose offsets are in [first, limit).

        Fills the blocks' ROWS and, where bytes are not records, IS_BAD; such a block has no rows.
        """
        ...

    def binary(
        self, data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32], rows: int
    ) -> pa.BinaryArray:
        """The values at these positions, as an array of their own."""
        ...

    def headers(self, table: RecordTable) -> tuple[pa.Buffer, pa.Buffer, pa.BinaryArray, pa.BinaryArray]:
        """Of the column of headers: validity, list offsets, all keys and all values."""
        ...
