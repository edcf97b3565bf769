"""Bytes of a log file, named by where they are."""

import os
from typing import NamedTuple

from minibroker_storage.files import FileHandle


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
