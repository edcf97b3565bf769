"""Read buffers, used again and again: fresh memory takes longer to get from the system than to fill."""

from contextlib import suppress
from typing import Final, Self

from minibroker_pipeline.filesystems.filesystem import OpenFile

_MOST_KEPT: Final = 16 * 1024 * 1024
_kept: Final[list[bytearray]] = []


class ReadBuffer:
    """Reads ranges of files, for a `with` statement. What one read has given is valid until the next."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def read(self, file: OpenFile, position: int, size: int) -> memoryview:
        """`size` bytes, fewer at the end of the file. `OSError`."""
        if len(self._memory) < size:
            with suppress(IndexError):
                self._memory = _kept.pop()
        if len(self._memory) < size:
            self._memory = bytearray(size)
        target = memoryview(self._memory)[:size]
        return target[: file.read_into(position, target)].toreadonly()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if 0 < len(self._memory) <= _MOST_KEPT:
            _kept.append(self._memory)
        self._memory = bytearray()
