"""Counts the reads of a log's files."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Reads:
    """Counts the reads and the bytes read, by file name."""

    def __init__(self) -> None:
        self.of = Counter[str]()
        self.calls = Counter[str]()

    def total(self, suffix: str) -> int:
        """Return the bytes read from files with this suffix."""
        return sum(size for name, size in self.of.items() if name.endswith(suffix))

    def count(self, suffix: str) -> int:
        """Return the number of reads from files with this suffix."""
        return sum(count for name, count in self.calls.items() if name.endswith(suffix))


@contextmanager
def counted() -> Iterator[Reads]:
    """Count the calls of `os.pread`."""
    reads = Reads()
    real = os.pread

    def pread(fd: int, size: int, position: int) -> bytes:
        data = real(fd, size, position)
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        reads.of[name] += len(data)
        reads.calls[name] += 1
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        yield reads


linux_only = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc tells which file a descriptor is of")
