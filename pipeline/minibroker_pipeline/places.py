"""Where log directories are: on this machine's disks, or behind an address such as `s3://bucket/kafka`, through fsspec.

Listing, reading whole small files and ranges of large ones is all that reading logs takes.
"""

import os
from typing import Any, Final, NamedTuple, Protocol, Self

_SCHEME: Final = "://"
_LOCAL: Final = "file:"
UNKNOWN: Final = -1


class Entry(NamedTuple):
    """A file or directory in a listing: `size` in bytes, and what tells a file from another one of the same name.

    Both are `UNKNOWN` where nothing says so or nobody asked.
    """

    name: str
    is_directory: bool
    size: int = UNKNOWN
    identity: int = UNKNOWN


class OpenFile(Protocol):
    """A file that ranges are read from, for a `with` statement."""

    @property
    def identity(self) -> int:
        """As in `Entry`."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes, fewer at the end of the file. `OSError`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Place(Protocol):
    """A file system. Paths are its own, as `place_of` gives them. Every method may raise `OSError`."""

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:
        """What a directory holds, in any order; with the size of files whose names end so. `FileNotFoundError`."""
        ...

    def read(self, path: str) -> bytes:
        """A whole file. `FileNotFoundError`."""
        ...

    def open(self, path: str) -> OpenFile:
        """A file to read ranges of. `FileNotFoundError`, here or with the first read."""
        ...


def place_of(path: str) -> tuple[Place, str]:
    """The file system that a path or an address is of, and the path in it.

    `ImportError` when fsspec, or what it needs for this kind of address, is not installed.
    """
    if path.startswith(_LOCAL):  # file:/a as Spark prints it, or file:///a
        path = path.removeprefix(_LOCAL).removeprefix("//")
    if _SCHEME not in path:
        return LocalPlace(), os.path.abspath(path)
    from fsspec.core import url_to_fs  # noqa: PLC0415 - for those only who have directories elsewhere

    system, inner = url_to_fs(path)
    return RemotePlace(system), str(inner).rstrip("/")


class LocalPlace:
    """Directories of this machine. A file's identity is its inode."""

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:
        """See `Place`."""
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
        """See `Place`."""
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def open(self, path: str) -> OpenFile:
        """See `Place`."""
        return _LocalFile(path)


class _LocalFile:
    """A descriptor. What it refers to stays readable when the file is deleted."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = os.fstat(self._fd).st_ino

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._fd)


class RemotePlace:
    """What an fsspec file system lists and reads."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def entries(self, directory: str, sizes_of: tuple[str, ...] = ()) -> list[Entry]:  # noqa: ARG002 - sizes come along
        """See `Place`."""
        self._system.invalidate_cache(directory)  # logs grow
        return [
            Entry(str(found["name"]).rstrip("/").rpartition("/")[2], found["type"] == "directory", found["size"] or 0)
            for found in self._system.ls(directory, detail=True)
        ]

    def read(self, path: str) -> bytes:
        """See `Place`."""
        return bytes(self._system.cat_file(path))

    def open(self, path: str) -> OpenFile:
        """See `Place`."""
        return _RemoteFile(self._system, path)


class _RemoteFile:
    """Each range is a request of its own."""

    identity = UNKNOWN

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._system.cat_file(self._path, start=position, end=position + size)) if size else b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
