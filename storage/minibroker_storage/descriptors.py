"""The descriptors of this process, and who may take the last ones.

The kernel gives out the lowest free number, so the number of a new descriptor shows how few are left. The last
ones below the limit are not for anything that stays open: imports, small files and directories need one for a moment,
and fail without. Below those lie the ones that connections leave to log files.

The limit is read each time, since it can be altered while the process runs.
"""

import errno
import os
import resource
from typing import Final

_SHORTAGE: Final = frozenset((errno.EMFILE, errno.ENFILE))
_UNLIMITED: Final = 1 << 30
_FOR_A_MOMENT: Final = 16
_FOR_FILES: Final = 256


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that the process (EMFILE) or the machine (ENFILE) has no descriptor left.

    The loader of extension modules reports it in an ImportError.
    """
    if isinstance(error, OSError):
        return error.errno in _SHORTAGE
    return isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error)


def limit() -> int:
    """Descriptors that the process may have now (the soft RLIMIT_NOFILE)."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def files_beside_connections() -> int:
    """Log files that may be open while connections have all they may have."""
    count = limit()
    return _beyond_connections(count) - _beyond_files(count)


def is_among_the_last(fd: int) -> bool:
    """Whether a descriptor is one of those that nothing may keep."""
    count = limit()
    return fd >= count - _beyond_files(count)


def is_free_for_connections(known: int) -> bool:
    """Whether a connection may take a descriptor now. `known` is any open one, which is duplicated to find out."""
    try:
        fd = os.dup(known)
    except OSError:
        return False
    os.close(fd)
    count = limit()
    return fd < count - _beyond_connections(count)


def lowered(fd: int) -> int:
    """The lowest descriptor that there is now for what `fd` refers to; `fd` is closed unless it is that one."""
    try:
        lower = os.dup(fd)
    except OSError:
        return fd
    fd, unused = min(fd, lower), max(fd, lower)
    os.close(unused)
    return fd


def _beyond_files(count: int) -> int:
    return min(_FOR_A_MOMENT, count // 8)


def _beyond_connections(count: int) -> int:
    return min(_FOR_FILES, count // 4)
