"""The mark of a snapshot: what belongs to it, written when all of that is on disk.

`minibroker-snapshot.json` is the first file and the last one: `{"version": 1, "files": null}` while the others are
being written, then the size and a checksum of each, by its path. A directory without it is no snapshot of this
version, but may be one of 1.0.0, or the directory of a stopped broker. A broker that starts on a snapshot removes the
mark.
"""

import json
import os
import zlib
from collections.abc import Iterator
from typing import Final

from minibroker.errors import OperationError
from minibroker_storage.atomic_files import read_file, write_atomically
from minibroker_storage.data_directory.names import SNAPSHOT_FILE, parse_partition_directory
from minibroker_storage.files import pwrite_all

Mark = dict[str, list[int]]
"""Size in bytes and checksum of each file, by its path in the snapshot."""

_VERSION: Final = 1
_CHUNK_BYTES: Final = 16_384
_ZEROS: Final = bytes(_CHUNK_BYTES)


class CutShortError(OperationError):
    """A snapshot that is not whole: the broker was killed while it took it."""


def write_mark(directory: str, files: Mark | None, *, sync: bool) -> None:
    """Mark a directory as that of a snapshot which has these files; None while it is not whole. OSError."""
    data = json.dumps({"version": _VERSION, "files": files}).encode()
    write_atomically(f"{directory}/{SNAPSHOT_FILE}", data, sync=sync)


def read_mark(directory: str) -> Mark | None:
    """Return the mark of a snapshot; None for a directory without one.

    CutShortError, OperationError for a damaged mark, OSError.
    """
    path = f"{directory}/{SNAPSHOT_FILE}"
    try:
        content = json.loads(read_file(path))
        files: Mark | None = content["files"]
        strange = [name for name in files or () if not _is_in_snapshot(name)]
        if content["version"] != _VERSION or strange:
            raise ValueError(f"{strange} in version {content['version']}")  # noqa: TRY301 - said below
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise OperationError(f"restore: {path} is damaged: {type(error).__name__}: {error}") from None
    if files is None:
        raise CutShortError(f"restore: {directory} is not whole: the snapshot was cut short while it was taken")
    return files


def _is_in_snapshot(name: str) -> bool:
    directory, _, file = name.rpartition("/")
    return file not in {"", ".", ".."} and (not directory or parse_partition_directory(directory) is not None)


def is_cut_short(directory: str) -> bool:
    """Whether a directory has nothing but what a killed broker has left of a snapshot. OSError."""
    if os.path.islink(directory) or not os.path.isdir(directory):
        return False
    try:
        read_mark(directory)
    except CutShortError:
        return True
    except OperationError:
        pass
    return False


def copy_file(source: str, target: str, size: int | None = None) -> list[int]:
    """Copy a file with its holes, and its directory if need be: the indexes of a log in use are ten nearly empty MB.

    With `size` the copy has that many bytes, whether the file has grown or was cut. Returns the size and the checksum
    of what was copied. `OSError`, which names a path.
    """
    path, checksum = source, 0
    try:
        read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(read)
            size = status.st_size if size is None else size
            path = target
            if not os.path.isdir(os.path.dirname(target)):
                os.mkdir(os.path.dirname(target), 0o755)
            written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, status.st_mode & 0o777)
            try:
                os.ftruncate(written, size)
                for position, data in _chunks(read, size):
                    checksum = zlib.crc32(data, zlib.crc32(b"%d" % position, checksum))
                    pwrite_all(written, data, position)
            finally:
                os.close(written)
        finally:
            os.close(read)
    except OSError as error:
        error.filename = error.filename or path
        raise
    return [size, checksum]


def _chunks(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The chunks of a file that are not zeros, with their positions: the same ones wherever its holes are. OSError."""
    position = 0
    while position < size:
        try:
            position = max(position, os.lseek(fd, position, os.SEEK_DATA) // _CHUNK_BYTES * _CHUNK_BYTES)
        except OSError:  # nothing but a hole is left
            return
        length = min(_CHUNK_BYTES, size - position)
        data = os.pread(fd, length, position).ljust(length, b"\0")  # an index may have been trimmed since
        if data != _ZEROS[: len(data)]:
            yield position, data
        position += _CHUNK_BYTES
