"""A bounded pool of open files: 5,000 partitions have 15,000 files, but a process often has only 1,024 descriptors.

A `FileHandle` represents one file for the lifetime of its segment, while its descriptor is opened and closed as needed.
The classes are not thread-safe: one event loop owns a pool and its handles.
"""

import contextlib
import errno
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple

from minibroker_protocol.records.header import LENGTH_AT, LOG_OVERHEAD
from minibroker_storage import descriptors
from minibroker_storage.errors import LogClosedError
from minibroker_storage.portability import CAN_SYNC_DIRECTORIES, os

IOV_MAX: Final = 1024
"""Maximum number of buffers in one gathering write, on Linux and macOS."""
_CREATION_FLAGS: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC

Buffer = bytes | bytearray | memoryview


class FileHandle:
    """A file that is opened by the first `fd()`, closed by its pool to make room, and reopened when needed.

    Creation flags (O_CREAT, O_EXCL, O_TRUNC) apply only to the first opening, so reopening an evicted file never
    empties it. A pinned descriptor stays open: the pool does not evict it, and after `delete()` or `close()` the
    last `unpin()` closes it.
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
        """Return the open descriptor. Unless pinned, the descriptor is valid only until the next call into the pool.

        Raises:
            OSError: the file cannot be opened.
            LogClosedError: the handle was closed or deleted.
        """
        fd = self._fd
        if fd >= 0 and not self._closed:
            self._pool.touch(self)
            return fd
        if self._closed:
            raise LogClosedError(f"{self.path}: closed")
        fd = self._fd = self._pool.open(self, self._flags)
        # Reopening the file after its eviction must not empty it.
        self._flags &= ~_CREATION_FLAGS
        return fd

    def reopen(self) -> int:
        """Open a second descriptor for reading, which the caller must close. Only this method is thread-safe.

        Raises:
            OSError: the file cannot be opened.
            LogClosedError: the handle was closed or deleted.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        if self._closed:  # Once the handle is closed, the path may refer to another file.
            os.close(fd)
            raise LogClosedError(f"{self.path}: closed")
        return fd

    def pin(self) -> int:
        """Return the descriptor, and keep it open until the matching `unpin()`, for reads by the kernel."""
        fd = self._fd if self._pins else self.fd()
        self._pins += 1
        return fd

    def unpin(self) -> None:
        """Undo one `pin()`. The last `unpin()` closes a file that was deleted, closed or evicted in the meantime."""
        if self._pins <= 0:
            raise ValueError(f"{self.path}: unpinned more often than pinned")
        self._pins -= 1
        if self._pins:
            return
        if self._closed:
            self.evict()
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
        """Whether the descriptor must stay open for a reader."""
        return self._pins > 0

    def close(self) -> None:
        """Close the handle permanently. Later calls of `fd()` raise `LogClosedError`."""
        self._closed = True
        # If readers have pinned the descriptor, for example for `sendfile`, the last reader to unpin it closes it.
        if not self._pins:
            self.evict()

    def delete(self) -> None:
        """Close the handle and remove the file. Readers that have pinned the handle can continue.

        A missing file is not an error.
        """
        # The inode exists as long as a descriptor does, so readers with a pinned descriptor are not affected.
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def evict(self) -> None:
        """Close the descriptor until the next `fd()` reopens the file. The pool calls this method to make room."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._pool.forget(self)
            os.close(fd)


class FilePool:
    """A pool of at most `capacity` open descriptors, which closes the least recently used one first.

    The pool never closes pinned descriptors, so it exceeds `capacity` while more than `capacity` are pinned. When the
    process is short of descriptors, the pool closes half of its descriptors. See `descriptors` for the descriptor
    numbers that the pool leaves free.
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
        """Create a handle that belongs to this pool, without opening the file."""
        return FileHandle(self, path, flags)

    def open(self, handle: FileHandle, flags: int) -> int:
        """Open `handle.path` and add the handle to the pool. Called only by handles.

        If the pool is full, other files are closed first. More are closed if the process has no descriptor left
        (EMFILE).
        """
        self._make_room(self.capacity - 1)
        try:
            fd = os.open(handle.path, flags, 0o644)
        except OSError as error:
            if not descriptors.is_shortage(error) or not self._open:
                raise
            # Close half of the files, because connections also need descriptors, and after closing just one file the
            # next open would fail as well.
            self._make_room(len(self._open) // 2)
            fd = os.open(handle.path, flags, 0o644)
        if descriptors.is_reserved(fd):
            self._make_room(len(self._open) // 2)
            fd = descriptors.move_to_lowest(fd)
        self._open[handle] = None
        return fd

    def forget(self, handle: FileHandle) -> None:
        """Remove a handle that is being closed from the pool. Called only by handles."""
        self._open.pop(handle, None)

    def make_room_for_connection(self, open_fd: int) -> bool:
        """Return whether one more connection may use a descriptor, closing files for it if necessary.

        Args:
            open_fd: any open descriptor, such as that of a listening socket.
        """
        if descriptors.can_accept_connection(open_fd):
            return True
        self._make_room(descriptors.max_files_beside_connections())
        return descriptors.can_accept_connection(open_fd)

    def trim(self) -> None:
        """Close unpinned descriptors while the pool exceeds `capacity`."""
        if len(self._open) > self.capacity:
            self._make_room(self.capacity)

    def _make_room(self, limit: int) -> None:
        open_handles = self._open
        # Visit each handle at most once. Pinned handles move to the end, so a loop without this limit would never end
        # if all of them were pinned.
        for _ in range(len(open_handles)):
            if len(open_handles) <= limit:
                return
            oldest = next(iter(open_handles))
            if oldest.pinned:
                self.touch(oldest)
            else:
                oldest.evict()


def pwrite_all(fd: int, data: Buffer, position: int) -> None:
    """Write all of `data` at `position`, in as many system calls as the kernel needs.

    Raises:
        OSError: the write failed or made no progress.
    """
    written = os.pwrite(fd, data, position)
    if written == len(data):
        return
    view = memoryview(data)
    while written < len(view):
        count = os.pwrite(fd, view[written:], position + written)
        if not count:
            raise OSError(errno.EIO, "the kernel takes no more bytes")
        written += count


def pwritev_all(fd: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write `buffers` consecutively from `position` in as few system calls as possible.

    Raises:
        OSError: the write failed or made no progress.
    """
    for start in range(0, len(buffers), IOV_MAX):
        # A call with more than IOV_MAX buffers would fail with EINVAL.
        group = buffers[start : start + IOV_MAX]
        written = _write_at(fd, group, position)
        position += written
        for buffer in group:
            size = len(buffer)
            if written >= size:
                written -= size
                continue
            # The kernel stopped within this buffer, for example because the disk is nearly full. Write it alone, then
            # the others.
            unwritten = memoryview(buffer)[written:]
            written = 0
            pwrite_all(fd, unwritten, position)
            position += len(unwritten)


def _write_at(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    if hasattr(os, "pwritev"):
        return os.pwritev(fd, buffers, position)
    os.lseek(fd, position, os.SEEK_SET)  # macOS before version 11 has no pwritev.
    return os.writev(fd, buffers)


MAX_COPIED_BYTES: Final = 120 * 1024
"""Maximum size in bytes of file ranges that are read and sent together with the rest of a response in one system call.

`os.sendfile` avoids a copy, but needs a system call for each range and each part between ranges, a second descriptor,
and several iterations of the queue. The client may wake up for each call. From 128 KiB on, `sendfile` is faster because
the C library returns larger allocations to the system immediately, and the kernel must clear each new one.
"""


class LogSlice(NamedTuple):
    """A range of a log file returned by a fetch: complete batches, of which the last one may be cut short.

    `handle` must be pinned if the bytes are read after the current event loop callback. An empty slice has size 0.
    """

    handle: FileHandle
    position: int
    size: int

    def read(self) -> bytes:
        """Return the bytes of the slice, read from the file.

        Raises:
            OSError: the file cannot be read.
        """
        return os.pread(self.handle.fd(), self.size, self.position) if self.size else b""

    def begins_with_a_whole_batch(self) -> bool:
        """Return whether the first batch of a non-empty slice is complete. Only the batch's length field is read.

        Raises:
            OSError: the file cannot be read.
        """
        head = os.pread(self.handle.fd(), LOG_OVERHEAD, self.position)
        return int.from_bytes(head[LENGTH_AT:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD <= self.size


TMP_SUFFIX: Final = ".tmp"


def write_atomically(path: str, data: bytes, *, sync: bool = False, mode: int = 0o644) -> None:
    """Replace the file at `path` so that readers, even after a restart, find either the old content or the new one.

    Args:
        path: the file to replace.
        data: the new content.
        sync: whether to sync the content and the directory. Otherwise the replacement is atomic even if the process
            crashes, but not if the machine does.
        mode: permissions of the new file.

    Raises:
        OSError: the file cannot be written. The old file is unchanged, unless `fsync_directory` raised the error.
    """
    replace_file(path, data, sync=sync, mode=mode)
    if sync:
        fsync_directory(os.path.dirname(path))


def replace_file(path: str, data: bytes, *, sync: bool = False, mode: int = 0o644) -> None:
    """Like write_atomically(), but without syncing the directory: `sync` applies only to the file's content.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
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
    """Sync a directory, to make the creation, renaming and removal of its files durable.

    Raises:
        OSError: the sync failed.
    """
    if not CAN_SYNC_DIRECTORIES:
        return
    fd = os.open(directory or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        error.filename = directory
        raise
    finally:
        os.close(fd)


def read_file(path: str) -> bytes:
    """Read a whole file.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        return file.read()
