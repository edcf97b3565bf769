"""Bytes of a log file, named by where they are."""

import os
from typing import Final, NamedTuple

from minibroker_protocol.records.header import LENGTH_AT, LOG_OVERHEAD
from minibroker_storage.files import FileHandle

COPIED: Final = 120 * 1024
"""Ranges that have so many bytes together are read and sent with the rest, in one call of the kernel.

`os.sendfile` copies nothing, but takes a call for each range and one for what stands before it, a second descriptor,
and turns of the queue. The client may wake up for each call. From 128 KiB on it is ahead: the C library gives larger
pieces of memory back at once, and the kernel has to clear each new one.
"""


class LogSlice(NamedTuple):
    """Bytes of one log file that a fetch returns: whole batches, but for the last one, which the limit may have cut.

    `handle` has to be pinned while the bytes are read outside of the event loop's turn. `size` 0 is an empty slice.
    """

    handle: FileHandle
    position: int
    size: int

    def read(self) -> bytes:
        """The bytes themselves. `OSError`."""
        return os.pread(self.handle.fd(), self.size, self.position) if self.size else b""

    def begins_with_a_whole_batch(self) -> bool:
        """Whether the first batch ends within the slice, which must not be empty. Reads its size only. `OSError`."""
        head = os.pread(self.handle.fd(), LOG_OVERHEAD, self.position)
        return int.from_bytes(head[LENGTH_AT:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD <= self.size
