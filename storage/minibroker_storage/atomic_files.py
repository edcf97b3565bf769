"""Files that are replaced as a whole, whatever is in them, and directories whose names are made durable."""

import contextlib
import os
from typing import Final

from minibroker_storage.files import pwrite_all

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
