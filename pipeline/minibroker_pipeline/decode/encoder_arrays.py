"""Input and output of the encoder: rows as arrays, in groups that share no batch, and the batches' positions."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_protocol.records import (
    MAX_DECOMPRESSED_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)
from minibroker_protocol.records.varint import INT32_MAX

GROUP_END: Final = 0
"""The row behind the group's last one. Groups follow each other, and none is empty."""
ATTRIBUTES: Final = 1
"""Of its batches, as they stand in a v2 header: codec, timestamp type, transactional. Rows have the times they have."""
LEADER_EPOCH: Final = 2
PRODUCER_ID: Final = 3
PRODUCER_EPOCH: Final = 4
BASE_SEQUENCE: Final = 5
"""Of the group's first row; those behind it count on. `NO_SEQUENCE` without a producer."""
BATCH_BYTES: Final = 6
"""The most bytes of a batch's records before compression: those that readers decompress. One record may be larger."""
GROUP_WIDTH: Final = 7

FIRST_ROW: Final = 0
END_ROW: Final = 1
POSITION: Final = 2
"""Of the batch in the output."""
SIZE: Final = 3
"""Of the whole batch; in v0 and v1 of its messages."""
LATEST: Final = 4
"""The largest timestamp."""
GROUP: Final = 5
BATCH_WIDTH: Final = 6


class Binary(NamedTuple):
    """A column of bytes: where each value is in `data`. A size is -1 for null."""

    data: NDArray[np.uint8]
    at: NDArray[np.int32]
    size: NDArray[np.int32]


class Rows(NamedTuple):
    """Everything that is to be written. `headers_first` and `headers_count` say which headers a row has."""

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Binary
    values: Binary
    headers_first: NDArray[np.int32]
    headers_count: NDArray[np.int32]
    header_keys: Binary
    header_values: Binary


class PlainBatches(NamedTuple):
    """Batches of v2 without compression and checksums, or the messages of v0 or v1 with theirs.

    `batches` has a line for each batch, or for the messages that share a wrapper, with the columns above.
    """

    data: bytearray
    batches: NDArray[np.int64]


def groups_table(ends: NDArray[np.int64] | list[int], batch_bytes: int = INT32_MAX) -> NDArray[np.int64]:
    """A table of groups that end before these rows, of batches without compression and producer."""
    table = np.empty((len(ends), GROUP_WIDTH), np.int64)
    table[:, GROUP_END] = ends
    table[:, ATTRIBUTES] = 0
    table[:, LEADER_EPOCH] = NO_PARTITION_LEADER_EPOCH
    table[:, PRODUCER_ID] = NO_PRODUCER_ID
    table[:, PRODUCER_EPOCH] = NO_PRODUCER_EPOCH
    table[:, BASE_SEQUENCE] = NO_SEQUENCE
    table[:, BATCH_BYTES] = min(batch_bytes, MAX_DECOMPRESSED_SIZE)
    return table
