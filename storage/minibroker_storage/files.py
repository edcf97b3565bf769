"""Open descriptors, bounded: 5,000 partitions have 15,000 files, a process often 1,024 descriptors.

A `FileHandle` stands for one file for as long as its segment lives; its descriptor comes and goes. Not thread-safe:
one event loop owns a pool and its handles.
"""

import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple

from minibroker_protocol.records.header import LENGTH_AT, LOG_OVERHEAD
from minibroker_storage import descriptors
from minibroker_storage.errors import LogClosedError

IOV_MAX: Final = 1024
"""Buffers that one gathering write takes, on Linux and on macOS."""
_CREATION_FLAGS: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC

Buffer = bytes | bytearray | memoryview


class FileHandle:
    """One file by path, opened on the first `fd()`, closed by the pool to make room, opened again on demand.

    Crash and eviction rule: creating flags (O_CREAT, O_EXCL, O_TRUNC) act on the first opening only, so that a file
    that was evicted and comes back is never emptied. A pinned descriptor is not closed: eviction passes it over, and
    `delete()` and `close()` leave it to the last `unpin()`.
    """

    __slots__ = ("_closed", "_fd", "_flags", "_pins", "_pool", "path")

    def __init__(self, pool: "FilePool", path: str, flags: int = os.O_RDWR) -> None:
        self.path = path
        self._pool = pool
        self._flags = flags | os.O_CLOEXEC
        self._fd = -1
        self._pins = 0
        self._closed = False

    def fd(self) -> int:
        """The open descriptor, good until the next call into the pool unless pinned.

        `OSError` when the file cannot be opened, `LogClosedError` after `close()` or `delete()`.
        """
        fd = self._fd
        if fd >= 0 and not self._closed:
            self._pool.touch(self)
            return fd
        if self._closed:
            raise LogClosedError(f"{self.path}: closed")
        fd = self._fd = self._pool.open(self, self._flags)
        # Or a file that the pool closed to make room would be emptied when it comes back.
        self._flags &= ~_CREATION_FLAGS
        return fd

    def reopen(self) -> int:
        """A descriptor for reading that is the caller's own, who closes it. The only method for other threads, too.

        `OSError` when the file cannot be opened, `LogClosedError` after `close()` or `delete()`.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        if self._closed:  # the path may be another file's by now
            os.close(fd)
            raise LogClosedError(f"{self.path}: closed")
        return fd

    def pin(self) -> int:
        """Keep the descriptor open until as many `unpin()` calls; returns it. For a kernel that reads from it."""
        fd = self._fd if self._pins else self.fd()
        self._pins += 1
        return fd

    def unpin(self) -> None:
        """Take back one `pin()`. The last one closes a file that was deleted, closed or crowded out meanwhile."""
        if self._pins <= 0:
            raise ValueError(f"{self.path}: unpinned more often than pinned")
        self._pins -= 1
        if self._pins:
            return
        if self._closed:
            self._close_now()
        else:
            self._pool.trim()

    def __enter__(self) -> int:
        return self.pin()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unpin()

    @property
    def pinned(self) -> bool:
        """Whether the descriptor is being read from right now."""
        return self._pins > 0

    @property
    def is_open(self) -> bool:
        """Whether a descriptor is held."""
        return self._fd >= 0

    def close(self) -> None:
        """Give the file up for good: `fd()` raises from now on."""
        self._closed = True
        # `sendfile` may still read from it. The last reader closes it.
        if not self._pins:
            self._close_now()

    def delete(self) -> None:
        """Remove the file and give it up. Readers that have it pinned can go on. A missing file is not an error."""
        # The inode lives as long as a descriptor does: readers that have it pinned read on.
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def evict(self) -> None:
        """Close the descriptor, for the pool only; the next `fd()` opens it again."""
        self._close_now()

    def _close_now(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._pool.forget(self)
            os.close(fd)


class FilePool:
    """At most `capacity` open descriptors, the longest unused one closed first (LRU).

    Pinned descriptors are never closed by the pool, so it can stand above `capacity` while more than that are pinned.
    When descriptors run short it gives up half of its own; see `descriptors` for those that it does not keep.
    """

    __slots__ = ("_open", "capacity", "touch")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} is less than 1")
        self.capacity = capacity
        self._open: OrderedDict[FileHandle, None] = OrderedDict()
        self.touch = self._open.move_to_end

    def __len__(self) -> int:
        return len(self._open)

    def handle(self, path: str, flags: int = os.O_RDWR) -> FileHandle:
        """A handle of this pool; nothing is opened yet."""
        return FileHandle(self, path, flags)

    def open(self, handle: FileHandle, flags: int) -> int:
        """Open `handle.path` and count it, for handles only. Makes room first, once more on EMFILE."""
        self._make_room(self.capacity - 1)
        try:
            fd = os.open(handle.path, flags, 0o644)
        except OSError as error:
            if not descriptors.is_shortage(error) or not self._open:
                raise
            # Half, not one: the next open would be short again, and connections need descriptors, too.
            self._make_room(len(self._open) // 2)
            fd = os.open(handle.path, flags, 0o644)
        if descriptors.is_among_the_last(fd):
            self._make_room(len(self._open) // 2)
            fd = descriptors.lowered(fd)
        self._open[handle] = None
        return fd

    def forget(self, handle: FileHandle) -> None:
        """Stop counting a handle that closes; for handles only."""
        self._open.pop(handle, None)

    def make_way_for_connection(self, known: int) -> bool:
        """Whether one more connection may take a descriptor; files are closed for it if need be.

        `known` is any open descriptor, of a listening socket for example.
        """
        if descriptors.is_free_for_connections(known):
            return True
        self._make_room(descriptors.files_beside_connections())
        return descriptors.is_free_for_connections(known)

    def trim(self) -> None:
        """Close what stands above `capacity` and is not pinned."""
        if len(self._open) > self.capacity:
            self._make_room(self.capacity)

    def _make_room(self, limit: int) -> None:
        held = self._open
        # Each handle at most once: pinned ones move to the end, and all of them may be pinned.
        for _ in range(len(held)):
            if len(held) <= limit:
                return
            oldest = next(iter(held))
            if oldest.pinned:
                self.touch(oldest)
            else:
                oldest.evict()


def pwrite_all(fd: int, data: Buffer, position: int) -> None:
    """Write all of `data` at `position`, however many calls the kernel makes of it. `OSError` when it stops."""
    written = os.pwrite(fd, data, position)
    if written == len(data):
        return
    rest = memoryview(data)
    while written < len(rest):
        count = os.pwrite(fd, rest[written:], position + written)
        if not count:
            raise OSError(errno.EIO, "the kernel takes no more bytes")
        written += count


def pwritev_all(fd: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write `buffers` one after the other from `position`, in as few calls as possible. `OSError` when it stops."""
    for start in range(0, len(buffers), IOV_MAX):
        # More buffers in one call are EINVAL.
        part = buffers[start : start + IOV_MAX]
        written = _gather(fd, part, position)
        position += written
        for buffer in part:
            size = len(buffer)
            if written >= size:
                written -= size
                continue
            # The kernel stopped within this buffer, such as at a disk that is nearly full: write it alone, then the
            # others.
            rest = memoryview(buffer)[written:]
            written = 0
            pwrite_all(fd, rest, position)
            position += len(rest)


def _gather(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    if hasattr(os, "pwritev"):
        return os.pwritev(fd, buffers, position)
    os.lseek(fd, position, os.SEEK_SET)  # macOS before 11 has no pwritev
    return os.writev(fd, buffers)


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


TMP_SUFFIX: Final = ".tmp"


def write_atomically(path: str, data: bytes, *, sync: bool = False, mode: int = 0o644) -> None:
    """Put `data` in the place of the file at `path`: readers, and a restart, find the old bytes or the new.

    With `sync` the bytes and the directory are on disk on return; without it the order holds against a crash of the
    process, not of the machine. `mode` says who may read it. `OSError` leaves the old file, unless `fsync_directory`
    has raised it.
    """
    replace_file(path, data, sync=sync, mode=mode)
    if sync:
        fsync_directory(os.path.dirname(path))


def replace_file(path: str, data: bytes, *, sync: bool = False, mode: int = 0o644) -> None:
    """`write_atomically` without its last step: `sync` is about the bytes alone. `OSError` leaves the old file."""
    temporary = path + TMP_SUFFIX
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            pwrite_all(fd, data, 0)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError as error:
        error.filename = error.filename or path
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def fsync_directory(directory: str) -> None:
    """Make the names in `directory` durable: new, renamed and removed files. `OSError`."""
    fd = os.open(directory or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        error.filename = directory
        raise
    finally:
        os.close(fd)


def read_file(path: str) -> bytes:
    """The whole file. `OSError`."""
    with open(path, "rb", buffering=0) as file:
        return file.read()
