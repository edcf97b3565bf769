"""File systems with log directories: local disks, and addresses such as `s3://bucket/kafka` through fsspec.

Reading logs takes three operations: listing a directory, reading a small file, and reading a range of a large file.
"""

import errno
import re
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple, Self

from minibroker_storage.layout import DELETED_SUFFIX
from minibroker_storage.portability import os

_SCHEME: Final = "://"
_MIN_RANGE_BYTES: Final = 64 * 1024
"""The smallest range to request. A request to an object store takes about as long as transferring this many bytes."""
UNKNOWN: Final = -1


class FileSystemError(OSError):
    """A store failed or refused a request.

    The message contains the address and the error text of the store or its client.
    """


class Entry(NamedTuple):
    """A file or directory in a listing.

    `size` is in bytes. `identity` distinguishes files that had the same name at different times. Either value is
    `UNKNOWN` if it was not requested or the file system does not provide it.
    """

    name: str
    is_directory: bool
    size: int = UNKNOWN
    identity: int = UNKNOWN


class LocalFileSystem:
    """Lists and reads directories on this machine. A file's identity is its inode. Every method can raise `OSError`."""

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:
        """Return the entries of a directory in arbitrary order.

        Files whose names end with a suffix in `sizes_of` are returned with their size and identity.

        Raises:
            FileNotFoundError: the directory does not exist.
        """
        listed: list[Entry] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.endswith(sizes_of):
                    listed.append(Entry(entry.name, entry.is_dir()))
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # Skip a file that was deleted after the directory was listed.
                listed.append(Entry(entry.name, entry.is_dir(), status.st_size, status.st_ino))
        return listed

    def read(self, path: str) -> bytes:
        """Return the contents of a file.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def read_range(self, path: str, position: int, end_position: int) -> bytes:
        """Return the bytes between two positions of a file, or fewer at the end of the file.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        with self.open(path) as file:
            return file.read_at(position, end_position - position)

    def open(self, path: str) -> "_LocalFile":
        """Open a file to read ranges of it.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        return _LocalFile(path)


class _LocalFile:
    """An open file, used as a context manager. Its contents remain readable after the file is deleted.

    Attributes:
        read_size: the number of bytes per read when a file is read from start to end.
        identity: see `Entry`.
    """

    read_size = 4 * 1024 * 1024  # Reads of this size fit into a processor's cache.

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = os.fstat(self._fd).st_ino

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the file.

        Raises:
            OSError: the file cannot be read.
        """
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            chunk = os.pread(self._fd, size - len(data), position + len(data))
            if not chunk:
                break
            data += chunk
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._fd)


@contextmanager
def _convert_errors(address: str) -> Generator[None]:
    """Convert errors of a store's client into `OSError`. The message contains the address.

    A client can raise errors of any class, with messages that do not name the file.
    """
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
    """Lists and reads an fsspec file system, with the methods of `LocalFileSystem`."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:  # noqa: ARG002 - sizes come along
        """See `LocalFileSystem.entries`."""
        with self._convert_errors(directory):
            self._system.invalidate_cache(directory)  # Logs grow, so a cached listing is stale.
            listed = {str(details["name"]).rstrip("/"): details for details in self._system.ls(directory, detail=True)}
        # If the path is a file, an object store lists the file itself instead of raising an error.
        if list(listed) == [directory] and listed[directory]["type"] != "directory":
            address = str(self._system.unstrip_protocol(directory))
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), address)
        return [
            Entry(name.rpartition("/")[2], details["type"] == "directory", details["size"] or 0)
            for name, details in listed.items()
        ]

    def read(self, path: str) -> bytes:
        """See `LocalFileSystem.read`."""
        with self._convert_errors(path):
            return bytes(self._system.cat_file(path))

    def open(self, path: str) -> "_RemoteFile":
        """See `LocalFileSystem.open`. A missing file raises `FileNotFoundError` at the first read instead."""
        return _RemoteFile(self, path)

    def read_range(self, path: str, position: int, end_position: int) -> bytes:
        """See `LocalFileSystem.read_range`."""
        with self._convert_errors(path):
            try:
                return bytes(self._system.cat_file(path, start=position, end=end_position))
            except Exception:
                if self._system.size(path) <= position:
                    return b""  # Object stores raise an error for a range after the end of the file.
                raise

    def _convert_errors(self, path: str) -> AbstractContextManager[None]:
        return _convert_errors(str(self._system.unstrip_protocol(path)))


class _RemoteFile:
    """Like `_LocalFile`, for a file in a store.

    Each range is fetched by a request of its own, unless the last request for a small range has fetched it, too.
    """

    identity = UNKNOWN
    read_size = 16 * 1024 * 1024

    def __init__(self, filesystem: RemoteFileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._kept_from = 0
        self._kept = b""

    def read_at(self, position: int, size: int) -> bytes:
        offset = position - self._kept_from
        if offset >= 0 and offset + size <= len(self._kept):
            return self._kept[offset : offset + size]
        if size >= _MIN_RANGE_BYTES or not size:
            return self._filesystem.read_range(self._path, position, position + size) if size else b""
        self._kept = self._filesystem.read_range(self._path, position, position + _MIN_RANGE_BYTES)
        self._kept_from = position
        return self._kept[:size]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


FileSystem = LocalFileSystem | RemoteFileSystem
OpenFile = _LocalFile | _RemoteFile


def strip_file_scheme(path: str) -> str:
    """Return a path without its `file:` scheme. Spark prints paths as file:/a, but file:///a is also common."""
    return re.sub("^file:(//)?", "", path)


def filesystem_of(path: str, storage: Mapping[str, Any] | None = None) -> tuple[FileSystem, str]:
    """Return the file system of a path or an address, and the path within that file system.

    Args:
        path: a local path, or an address with a scheme.
        storage: arguments for fsspec's file system, in addition to those that fsspec finds by itself.

    Raises:
        ImportError: fsspec, or a package it needs for this kind of address, is not installed.
        ValueError: fsspec does not support the address.
        FileSystemError: the store fails or refuses the request.
    """
    path = strip_file_scheme(path)
    if _SCHEME not in path:
        return LocalFileSystem(), os.path.abspath(path)
    from fsspec.core import url_to_fs  # noqa: PLC0415 - only directories elsewhere need it

    with _convert_errors(path):
        system, inner_path = url_to_fs(path, **(storage or {}))
    return RemoteFileSystem(system), str(inner_path).rstrip("/")


def read_if_there(filesystem: FileSystem, path: str) -> bytes | None:
    """Return the contents of a file, or None if it does not exist.

    Raises:
        OSError: the file exists but cannot be read.
    """
    try:
        return filesystem.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_listed(filesystem: FileSystem, path: str, identity: int) -> OpenFile:
    """Open a file from a listing, by its name or by the name that it gets before it is deleted.

    Retention and compaction rename files and keep them for `file.delete.delay.ms`.

    Raises:
        FileNotFoundError: neither name belongs to the listed file.
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
