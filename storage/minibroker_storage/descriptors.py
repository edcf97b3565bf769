"""Reserves the file descriptors of this process for different uses.

The kernel assigns the lowest free number, so the number of a new descriptor shows how many are left. The highest
numbers below the limit are reserved for short use: imports, small files and directories need a descriptor for a moment
and fail without one. The numbers below these are reserved for log files and not given to connections.

The limit is read on each call because it can change while the process runs.
"""

import errno
import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

_resource: Any = import_module("resource") if find_spec("resource") else None
"""The module of that name, or None on Windows, which has no limit."""

_SHORTAGE: Final = frozenset((errno.EMFILE, errno.ENFILE))
_UNLIMITED: Final = 1 << 30
_RESERVED_FOR_SHORT_USE: Final = 16
_RESERVED_FOR_FILES: Final = 256


def is_shortage(error: BaseException) -> bool:
    """Return whether an error means that the process (EMFILE) or the machine (ENFILE) has no descriptor left.

    An extension module that cannot be loaded for lack of a descriptor raises an ImportError, which counts as well.
    """
    if isinstance(error, OSError):
        return error.errno in _SHORTAGE
    return isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error)


def limit() -> int:
    """Return the current limit on open descriptors (the soft RLIMIT_NOFILE)."""
    if _resource is None:
        return _UNLIMITED
    soft: int = _resource.getrlimit(_resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if soft == _resource.RLIM_INFINITY else soft


def raise_limit(maximum: int) -> int:
    """Raise the limit to `maximum`, or as far as the process may, and return the new limit."""
    if _resource is None:
        return maximum
    soft: int
    soft, hard = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    wanted = maximum if hard == _resource.RLIM_INFINITY else min(hard, maximum)
    if soft < wanted:
        try:
            _resource.setrlimit(_resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):  # macOS rejects this limit if it exceeds the kernel's own maximum.
            pass
    return soft


def max_files_beside_connections() -> int:
    """Return how many log files can be open while connections use all descriptors they may have."""
    count = limit()
    return _count_reserved_from_connections(count) - _count_reserved_for_short_use(count)


def is_reserved(fd: int) -> bool:
    """Return whether a descriptor has one of the numbers reserved for short use."""
    count = limit()
    return fd >= count - _count_reserved_for_short_use(count)


def can_accept_connection(open_fd: int) -> bool:
    """Return whether a connection may use another descriptor now.

    Args:
        open_fd: any open descriptor, which is duplicated to find the lowest free number.
    """
    try:
        fd = os.dup(open_fd)
    except OSError:
        return False
    os.close(fd)
    count = limit()
    return fd < count - _count_reserved_from_connections(count)


def move_to_lowest(fd: int) -> int:
    """Move an open file to the lowest free descriptor, close `fd`, and return the new one.

    Returns `fd` if there is no lower number.
    """
    try:
        lower = os.dup(fd)
    except OSError:
        return fd
    fd, unused = min(fd, lower), max(fd, lower)
    os.close(unused)
    return fd


def _count_reserved_for_short_use(count: int) -> int:
    return min(_RESERVED_FOR_SHORT_USE, count // 8)


def _count_reserved_from_connections(count: int) -> int:
    return min(_RESERVED_FOR_FILES, count // 4)
