"""Copies data directories without filling the holes of sparse files.

Brokers reserve 10 MiB for each index file. Copies made by `shutil` would use all of it, which can be gigabytes.
"""

import os
import shutil
import stat
from pathlib import Path


def copy_directory(source: Path, target: Path) -> Path:
    """Copy a directory with the holes of its files, and return `target`, which must not exist yet.

    Raises:
        shutil.Error: files disappeared during the copy.
    """
    return Path(shutil.copytree(source, target, copy_function=copy_file))


def copy_file(source: str, target: str) -> None:
    """Copy a file with its times and permissions. Sockets and pipes are skipped."""
    if not stat.S_ISREG(os.stat(source).st_mode):
        return
    with open(source, "rb") as content, open(target, "wb") as copy:
        size = os.fstat(content.fileno()).st_size
        at = 0
        while at < size:
            try:
                at = os.lseek(content.fileno(), at, os.SEEK_DATA)
            except OSError:  # ENXIO means that only a hole remains.
                break
            end = os.lseek(content.fileno(), at, os.SEEK_HOLE)
            content.seek(at)
            copy.seek(at)
            copy.write(content.read(min(end, size) - at))
            at = end
        copy.truncate(size)
    shutil.copystat(source, target)
