"""The module `os` with what Windows lacks, and locks of files there and elsewhere.

Modules that call `os.pread` and the like import `os` from here. It is Python's own where that has them all, and a copy
with substitutes elsewhere, so that other libraries still see what the platform lacks.
"""

import os
import threading
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

__all__ = ["CAN_SYNC_DIRECTORIES", "fcntl", "lock_exclusively", "os"]

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""The module of that name, or None on Windows."""

CAN_SYNC_DIRECTORIES: Final = hasattr(os, "O_DIRECTORY")
_LOCKED_BYTE: Final = 1 << 30
"""The byte that is locked on Windows, where others cannot read what is locked: after the end of any lock file."""
_guard: Final = threading.Lock()
"""Held from a seek to the read or write at that position."""


def lock_exclusively(fd: int) -> None:
    """Lock a file for this process until it closes the descriptor.

    Raises:
        OSError: another process has locked it (EAGAIN or EACCES).
    """
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    msvcrt: Any = __import__("msvcrt")
    with _guard:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)


def _pread(fd: int, size: int, position: int) -> bytes:
    with _guard:
        os.lseek(fd, position, os.SEEK_SET)
        return os.read(fd, size)


def _pwrite(fd: int, data: Any, position: int) -> int:
    with _guard:
        os.lseek(fd, position, os.SEEK_SET)
        return os.write(fd, data)


def _pwritev(fd: int, buffers: Any, position: int) -> int:
    return _pwrite(fd, b"".join(buffers), position)


def _statvfs(path: str) -> SimpleNamespace:
    usage = import_module("shutil").disk_usage(path)
    return SimpleNamespace(f_frsize=1, f_blocks=usage.total, f_bavail=usage.free)


def _complete() -> Any:
    substitutes: dict[str, Any] = {
        # Files are text there, and are inherited, unless these flags say otherwise. All files are opened with them.
        "O_CLOEXEC": getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0),
        "O_DIRECTORY": 0,
        "O_NOFOLLOW": 0,
        "geteuid": lambda: 0,  # st_uid is 0 there, too
        "pread": _pread,
        "pwrite": _pwrite,
        "statvfs": _statvfs,
    }
    if not hasattr(os, "writev"):  # macOS before version 11 has that, and needs no substitute.
        substitutes["pwritev"] = _pwritev
    if all(hasattr(os, name) for name in substitutes):
        return os
    completed = ModuleType(os.__name__)
    vars(completed).update({**substitutes, **vars(os)})
    return completed


if not TYPE_CHECKING:  # where it is Python's module
    os = _complete()
