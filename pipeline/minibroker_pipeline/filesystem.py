"""File systems with log directories: local disks, or addresses such as `s3://bucket/kafka` through fsspec.

Listing, reading whole small files and ranges of large ones is all that reading logs takes.
"""

import errno
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, NamedTuple, Self

from minibroker_storage.layout import DELETED_SUFFIX

_SCHEME: Final = "://"
_LOCAL: Final = "file:"
_LEAST_BYTES: Final = 64 * 1024
"""A request to an object store takes about as long as this many bytes, so that no fewer are asked for."""
UNKNOWN: Final = -1


class FileSystemError(OSError):
    """A store that does not answer, or refuses. Names the address, and says what the store or its client says."""


class Entry(NamedTuple):
    """A file or directory in a listing: `size` in bytes, and the mark that distinguishes files of one name.

    Both are `UNKNOWN` where they were not asked for, or nothing says so.
    """

    name: str
    is_directory: bool
    size: int = UNKNOWN
    identity: int = UNKNOWN


class LocalFileSystem:
    """Directories of this machine. A file's identity is its inode. Every method may raise `OSError`."""

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:
        """The entries of a directory, in any order; with the size of files whose names end so. `FileNotFoundError`."""
        found: list[Entry] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.endswith(sizes_of or "\0"):
                    found.append(Entry(entry.name, entry.is_dir()))
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # deleted meanwhile
                found.append(Entry(entry.name, entry.is_dir(), status.st_size, status.st_ino))
        return found

    def read(self, path: str) -> bytes:
        """A whole file. `FileNotFoundError`."""
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def open(self, path: str) -> "_LocalFile":
        """A file to read ranges of. `FileNotFoundError`."""
        return _LocalFile(path)


class _LocalFile:
    """A descriptor, for a `with` statement. What it refers to stays readable when the file is deleted.

    Attributes:
        bytes_at_once: the number of bytes to read at once of a file that is read as a whole.
        identity: as in `Entry`.
    """

    bytes_at_once = 4 * 1024 * 1024  # which a processor's cache can hold

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = os.fstat(self._fd).st_ino

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes, fewer at the end of the file. `OSError`."""
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        """Read into `target`, to its end; return how many bytes there are. `OSError`."""
        if sys.platform == "darwin":  # older ones have no preadv
            data = self.read_at(position, len(target))
            target[: len(data)] = data
            return len(data)
        done = 0
        while done < len(target):
            more = os.preadv(self._fd, [target[done:]], position + done)
            if not more:
                break
            done += more
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._fd)


@contextmanager
def _named(address: str) -> Generator[None]:
    """Errors of a store's client, which may be of any class and may not say what they are about, as `OSError`."""
    try:
        yield
    except FileNotFoundError as error:
        if not error.args or str(error) in address:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address) from None
        raise FileNotFoundError(f"{address}: {error}") from None
    except (ImportError, ValueError, NotADirectoryError, FileSystemError):
        raise
    except Exception as error:
        raise FileSystemError(f"{address}: {error}") from error


class RemoteFileSystem:
    """The listing and reading of an fsspec file system, with the methods of `LocalFileSystem`."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:  # noqa: ARG002 - sizes come along
        """See `LocalFileSystem`."""
        with self._named(directory):
            self._system.invalidate_cache(directory)  # logs grow
            listed = {str(found["name"]).rstrip("/"): found for found in self._system.ls(directory, detail=True)}
        if list(listed) == [directory] and listed[directory]["type"] != "directory":  # which a store lists, too
            address = str(self._system.unstrip_protocol(directory))
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), address)
        return [
            Entry(name.rpartition("/")[2], found["type"] == "directory", found["size"] or 0)
            for name, found in listed.items()
        ]

    def read(self, path: str) -> bytes:
        """See `LocalFileSystem`."""
        with self._named(path):
            return bytes(self._system.cat_file(path))

    def open(self, path: str) -> "_RemoteFile":
        """See `LocalFileSystem`; `FileNotFoundError` comes with the first read."""
        return _RemoteFile(self, path)

    def read_range(self, path: str, position: int, end_position: int) -> bytes:
        """Bytes of a file, fewer at its end."""
        with self._named(path):
            try:
                return bytes(self._system.cat_file(path, start=position, end=end_position))
            except Exception:
                if self._system.size(path) <= position:
                    return b""  # a store refuses what lies behind the end
                raise

    def _named(self, path: str) -> AbstractContextManager[None]:
        return _named(str(self._system.unstrip_protocol(path)))


class _RemoteFile:
    """As `_LocalFile`. Each range is a request of its own, unless it is small and near one that has been read."""

    identity = UNKNOWN
    bytes_at_once = 16 * 1024 * 1024

    def __init__(self, filesystem: RemoteFileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._read_from = 0
        self._read = b""

    def read_at(self, position: int, size: int) -> bytes:
        at = position - self._read_from
        if at >= 0 and at + size <= len(self._read):
            return self._read[at : at + size]
        if size >= _LEAST_BYTES or not size:
            return self._filesystem.read_range(self._path, position, position + size) if size else b""
        self._read = self._filesystem.read_range(self._path, position, position + _LEAST_BYTES)
        self._read_from = position
        return self._read[:size]

    def read_into(self, position: int, target: memoryview) -> int:
        data = self.read_at(position, len(target))
        target[: len(data)] = data
        return len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


FileSystem = LocalFileSystem | RemoteFileSystem
OpenFile = _LocalFile | _RemoteFile


def filesystem_of(path: str, storage: Mapping[str, Any] | None = None) -> tuple[FileSystem, str]:
    """The file system that a path or an address is of, and the path in it.

    `storage` is what fsspec's file system for such addresses is made with, besides what it finds by itself.
    `ImportError` when fsspec, or what it needs for this kind of address, is not installed; `ValueError` for addresses
    that it does not know; `FileSystemError`.
    """
    if path.startswith(_LOCAL):  # file:/a as Spark prints it, or file:///a
        path = path.removeprefix(_LOCAL).removeprefix("//")
    if _SCHEME not in path:
        return LocalFileSystem(), os.path.abspath(path)
    from fsspec.core import url_to_fs  # noqa: PLC0415 - only directories elsewhere need it

    with _named(path):
        system, inner = url_to_fs(path, **(storage or {}))
    return RemoteFileSystem(system), str(inner).rstrip("/")


def read_if_there(filesystem: FileSystem, path: str) -> bytes | None:
    """Return a whole file, or None if it does not exist. `OSError`."""
    try:
        return filesystem.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_listed(filesystem: FileSystem, path: str, identity: int) -> OpenFile:
    """Open the file that a listing has shown, under its name or the one that it has until it is deleted.

    Retention and compaction rename files, which stay for `file.delete.delay.ms`. `FileNotFoundError`.
    """
    for name in (path, path + DELETED_SUFFIX):
        try:
            file = filesystem.open(name)
        except FileNotFoundError:
            continue
        if identity in {UNKNOWN, file.identity}:
            return file
        file.__exit__(None, None, None)
    raise FileNotFoundError(errno.ENOENT, "deleted or compacted since the job has begun; start it again", path)


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
