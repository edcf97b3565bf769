"""Blocks: pieces of bytes that hold records and nothing else, each with what their batch's header says.

The body of a v2 batch is one, decompressed; so is a whole message of v0 or v1, or the message set out of a wrapper. A
table of them is an int64 array with a line for each and the columns below. An engine fills the last three.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.headers import chosen
from minibroker_protocol.records.header import RECORD_BATCH_OVERHEAD, TIMESTAMP_TYPE_FLAG

START: Final = 0
"""First byte in the buffer that the table belongs to; of a plain message, of its entry."""
END: Final = 1
KIND: Final = 2
COUNT: Final = 3
"""Records by the header; -1 for a wrapper."""
BASE_OFFSET: Final = 4
"""Of a wrapper, at first the wrapper's own, which is its last; the engine puts the first record's here."""
BASE_TIMESTAMP: Final = 5
FIXED_TIMESTAMP: Final = 6
"""1 where all records have MAX_TIMESTAMP: the broker's time, or in v0 none."""
MAX_TIMESTAMP: Final = 7
ENTRY: Final = 8
"""Line in the array of headers."""
ROWS: Final = 9
IS_BAD: Final = 10
WIDTH: Final = 11

V2: Final = 0
PLAIN_V0: Final = 1
PLAIN_V1: Final = 2
WRAPPER_V0: Final = 3
WRAPPER_V1: Final = 4

_SMALLEST_ENTRIES: Final = (7, 26, 34, 26, 34)
"""Bytes that a record takes at least, by kind."""


def blocks_of(headers: NDArray[Any], lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """The table for the entries in these lines of `headers`, as they lie in the data that the headers are of.

    A compressed entry's START and END are for the caller to set, once it has been decompressed.
    """
    entries = chosen(headers, lines)
    table = np.zeros((len(lines), WIDTH), np.int64)
    magic = entries["magic"]
    is_v2 = magic == 2  # noqa: PLR2004 - the format
    table[:, START] = entries["position"] + np.where(is_v2, RECORD_BATCH_OVERHEAD, 0)
    table[:, END] = entries["position"] + entries["size"]
    kinds = np.where(entries["codec"] != 0, WRAPPER_V0, PLAIN_V0) + magic
    table[:, KIND] = np.where(is_v2, V2, kinds)
    table[:, COUNT] = entries["record_count"]
    table[:, BASE_OFFSET] = entries["base_offset"]
    table[:, BASE_TIMESTAMP] = entries["base_timestamp"]
    table[:, FIXED_TIMESTAMP] = (entries["attributes"] & TIMESTAMP_TYPE_FLAG != 0) | (magic == 0)
    table[:, MAX_TIMESTAMP] = entries["max_timestamp"]
    table[:, ENTRY] = lines
    return table


def most_rows(table: NDArray[np.int64]) -> int:
    """The most records that the blocks can hold, whatever their headers claim."""
    fitting = (table[:, END] - table[:, START]) // np.array(_SMALLEST_ENTRIES)[table[:, KIND]]
    claimed = np.where(table[:, COUNT] < 0, fitting, table[:, COUNT])
    return int(np.minimum(fitting, claimed).sum())
