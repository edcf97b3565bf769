"""Copies of data directories that take no more room than what they are copied from.

Brokers reserve 10 MiB for each index file. The copies that `shutil` makes take all of it: gigabytes for a directory.
"""

import os
import shutil
import stat
from pathlib import Path


def copy_directory(source: Path, target: Path) -> Path:
    """Copy all files; a hole stays one. Returns `target`, which must not exist. shutil.Error where files went away."""
    return Path(shutil.copytree(source, target, copy_function=copy_file))


def copy_file(source: str, target: str) -> None:
    """Copy a file with its times and rights; a socket or a pipe is left out."""
    if not stat.S_ISREG(os.stat(source).st_mode):
        return
    with open(source, "rb") as content, open(target, "wb") as copy:
        size = os.fstat(content.fileno()).st_size
        at = 0
        while at < size:
            try:
                at = os.lseek(content.fileno(), at, os.SEEK_DATA)
            except OSError:  # ENXIO: only a hole is left
                break
            end = os.lseek(content.fileno(), at, os.SEEK_HOLE)
            content.seek(at)
            copy.seek(at)
            copy.write(content.read(min(end, size) - at))
            at = end
        copy.truncate(size)
    shutil.copystat(source, target)
