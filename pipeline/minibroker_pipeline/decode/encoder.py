"""Rows to v2 batches."""

from typing import Any, NamedTuple

import pyarrow as pa
from numpy.typing import NDArray

from minibroker_protocol.errors import EncodeError

__all__ = ["EncodeError", "EncodedBatches", "encode"]


class EncodedBatches(NamedTuple):
    """Whole v2 batches, one behind the other, and the heads of them (`HEADER_DTYPE`), for index entries."""

    data: memoryview
    headers: NDArray[Any]


def encode(
    batch: pa.RecordBatch,
    *,
    base_offset: int = 0,
    codec: str = "none",
    level: int | None = None,
    batch_bytes: int = 64 * 1024,
    default_timestamp: int = -1,
    keep_offsets: bool = False,
    leader_epoch: int = -1,
) -> EncodedBatches:
    """The rows of `batch` (columns key, value, timestamp, headers, each of which may be missing) as v2 batches.

    A batch is full before its records, uncompressed, exceed `batch_bytes`; it holds one record at least. Offsets follow each
    other from `base_offset` on, or are those of the column offset, which must rise, under `keep_offsets`. A null timestamp becomes
    `default_timestamp`, in milliseconds. `EncodeError`.
    """
    raise NotImplementedError
