"""The heads of log entries as one array: what planning, statistics and checks look at, and what `decode` starts from."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HEADER_DTYPE: Final = np.dtype(
    [
        ("position", "i8"),  # of the entry's first byte in the data
        ("size", "i4"),  # bytes of the whole entry
        ("base_offset", "i8"),  # of a v0 or v1 wrapper, that of its last record: no header knows the first
        ("last_offset", "i8"),
        ("leader_epoch", "i4"),
        ("magic", "i1"),
        ("crc", "u4"),  # CRC-32C of a v2 batch, CRC-32 of a v0 or v1 message
        ("attributes", "i2"),
        ("base_timestamp", "i8"),  # milliseconds; -1 in v0
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),  # -1 where there is none, like the two below
        ("producer_epoch", "i2"),
        ("base_sequence", "i4"),
        ("record_count", "i4"),  # -1 of a v0 or v1 wrapper: no header knows it
        ("codec", "i1"),  # id, attributes bits 0-2
    ]
)
"""One log entry: a v2 batch, or a message of v0 or v1. Values are as they stand in the bytes; nothing is checked."""


def scan_headers(data: bytes | bytearray | memoryview, *, position: int = 0) -> NDArray[Any]:
    """The head of every whole entry in `data` from `position` on, as an array of `HEADER_DTYPE`.

    Ends before an entry that is cut short, or whose size or magic no entry can have; nothing is raised. The array's
    last position plus size tells where, and whether that is the end of the data. No checksum is looked at.
    """
    raise NotImplementedError
